"""Every test here has databases of its own, under names and aliases of its own."""

from __future__ import annotations

from tests.fresh import fresh, in_thread, manage

__all__ = ["fresh", "in_thread", "manage"]
