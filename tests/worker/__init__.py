"""Tests of the worker's parts and of the whole pool, on a real database."""
