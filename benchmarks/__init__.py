"""Measurements of what the app does in the database: ``python -m benchmarks.add_jobs --help``."""

from __future__ import annotations
