"""Every test here has a database of its own."""

from __future__ import annotations

from tests.fresh import fresh, in_thread, manage

__all__ = ["fresh", "in_thread", "manage"]
