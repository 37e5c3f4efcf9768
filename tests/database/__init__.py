"""Tests of one SQL function or query each; two sessions where locks matter."""
