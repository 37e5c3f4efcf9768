"""The reported workload on the real worker, and a verdict: ``python -m testproject.demo``."""

from __future__ import annotations
