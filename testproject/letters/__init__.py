"""The tasks of a project that might be, for ``python -m testproject.demo --serve``."""

from __future__ import annotations
