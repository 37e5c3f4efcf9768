"""Watches over deadlines and tells when one has passed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

# A deadline may be noticed so much later, in seconds: whoever sets one need not wake anybody
# then, unless all others are farther away than this.
COARSE = 1.0


class Deadlines:
    """At most one deadline for each of some keys. Only `watch()` waits.

    `wake()` ends the wait of whoever is in `wait(seconds)`.
    """

    def __init__(
        self,
        *,
        on_late: Callable[[Any], None],
        wait: Callable[[float | None], object],
        wake: Callable[[], None],
    ) -> None:
        self._on_late = on_late
        self._wait = wait
        self._wake = wake
        self._set: dict[int, tuple[float, Any]] = {}
        self._next: float | None = None

    def set(self, key: int, deadline: float, value: object) -> None:
        """Let `on_late(value)` be called at `deadline`, unless it is taken away before."""
        self._set[key] = (deadline, value)
        if self._next is None or deadline < self._next - COARSE:
            self._wake()

    def __bool__(self) -> bool:
        return bool(self._set)

    def take_away(self, key: int) -> None:
        self._set.pop(key, None)

    def watch(self) -> None:
        """Call `on_late` for what is late, and wait for the next."""
        now = time.monotonic()
        for key, late in list(self._set.items()):
            # Only if it is still this one: the slot may have gone on to its next job.
            if late[0] <= now and self._set.get(key) is late:
                self._set.pop(key, None)
                self._on_late(late[1])
        self._next = None
        deadlines = [deadline for deadline, _ in list(self._set.values())]
        if deadlines:
            self._next = max(min(deadlines), now + 0.01)
        self._wait(None if self._next is None else self._next - now)
