"""The worker beside its peers: ``python -m benchmarks.worker --help``."""

from __future__ import annotations
