"""What is measured: each module has a ``run(bench)`` that yields reports."""

from __future__ import annotations
