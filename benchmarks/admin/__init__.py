"""How long the admin's pages take over two million jobs: ``python -m benchmarks.admin``."""

from __future__ import annotations
