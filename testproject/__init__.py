"""A small real Django project: the demo, the tests' settings, and something to try by hand."""

from __future__ import annotations
