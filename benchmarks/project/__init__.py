"""A small Django project for the benchmarks of the worker, with a usual set of apps."""

from __future__ import annotations
