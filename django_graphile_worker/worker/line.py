"""The line of jobs in front of the slots, and who may take the next one.

There are as many places as jobs may run at a time, and twice as many slots: threads for sync tasks,
coroutines for async ones. A slot that has a place takes jobs from the head of the line, in the
order fed; where the head is of the other kind, it lends its place to a slot of that kind. So both
kinds share one bound and one order, and as long as jobs of one kind come, nothing is handed over.

Nothing here locks: a deque's `append`, `popleft` and `remove` are atomic. A slot is known here by
its bell, something with `release()` that ends its wait, also one that it has not yet begun.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from django_graphile_worker.jobs import LockedJob


class Bell(Protocol):
    def release(self) -> None:
        """End the wait of the slot whose bell this is, or its next one."""


class Side:
    """The slots of one kind that wait, and the jobs that the other kind has left for them."""

    def __init__(self) -> None:
        self.ready: deque[LockedJob] = deque()
        self.idle: deque[Bell] = deque()
        """Slots that have a place and found no job."""
        self.parked: deque[Bell] = deque()
        """Slots without a place."""


class Line:
    """Jobs that wait, and slots that do.

    A place is never lost: a slot without one puts its bell among the parked before the place goes
    to another, so whoever has a place finds a parked slot of the other kind.
    """

    def __init__(
        self,
        *,
        is_async: Callable[[LockedJob], bool],
        stopping: Callable[[], bool],
        on_room: Callable[[], None],
    ) -> None:
        self.waiting: deque[LockedJob] = deque()
        self.sync = Side()
        self.asynchronous = Side()
        self.on_room = on_room
        self._is_async = is_async
        self._stopping = stopping
        self._low = -1
        # When jobs came, and how many had come by then: tells how long the first has waited.
        self._fed = 0
        self._feedings: deque[tuple[int, float]] = deque()

    def feed(self, jobs: Sequence[LockedJob]) -> None:
        """Put jobs behind those that wait."""
        self._fed += len(jobs)
        self._feedings.append((self._fed, time.monotonic()))
        self.waiting.extend(jobs)
        self._low = len(self.waiting) // 2
        self.wake_one()

    def waited(self) -> float:
        """Return how long the first job has waited, in seconds; 0 where none waits."""
        gone = self._fed - len(self.waiting)
        with contextlib.suppress(IndexError):
            while self._feedings[0][0] <= gone:
                self._feedings.popleft()
            return time.monotonic() - self._feedings[0][1]
        return 0.0

    def take_back(self) -> list[LockedJob]:
        """Take out all jobs that no slot has begun."""
        taken: list[LockedJob] = []
        for jobs in (self.sync.ready, self.asynchronous.ready, self.waiting):
            with contextlib.suppress(IndexError):
                while True:
                    taken.append(jobs.popleft())
        return taken

    def taken(self) -> None:
        """Go on with what remains, after a slot took a job: wake the next one, ask for more."""
        if not self.waiting:
            return
        if self.sync.idle or self.asynchronous.idle:
            self.wake_one()
        if len(self.waiting) <= self._low:
            self._low = -1
            self.on_room()

    def wake_one(self) -> None:
        """Wake an idle slot of the kind that the first job needs, if there is one."""
        try:
            wanted, other = self.asynchronous, self.sync
            if not self._is_async(self.waiting[0]):
                wanted, other = other, wanted
        except IndexError:
            return
        with contextlib.suppress(IndexError):
            wanted.idle.popleft().release()
            return
        with contextlib.suppress(IndexError):
            # It sleeps on, and its place goes to one that can use it: its loop may be blocked.
            other.parked.append(other.idle.popleft())
            wanted.parked.popleft().release()

    def rest(self, side: Side, bell: Bell) -> bool:
        """Let a slot with a place be idle; return whether it must wait for its bell."""
        side.idle.append(bell)
        # Look once more: a job may have come before anybody could see that we are idle.
        if self.waiting or side.ready or self._stopping():
            with contextlib.suppress(ValueError):
                side.idle.remove(bell)
                return False
            # Somebody rings already, or has taken our place.
        return True

    def hand_over(self, job: LockedJob, side: Side, bell: Bell) -> bool:
        """Leave a job to the kind that `side` is not; return whether to wait for the bell.

        If so, the slot has lent its place.
        """
        other = self.sync if side is self.asynchronous else self.asynchronous
        other.ready.append(job)
        with contextlib.suppress(IndexError):
            other.idle.popleft().release()
            return False
        side.parked.append(bell)
        with contextlib.suppress(IndexError):  # stopping: all were woken
            other.parked.popleft().release()
        return not self._stopping()

    def wake_all(self) -> None:
        """Wake all slots, since it is over."""
        for side in (self.sync, self.asynchronous):
            for bells in (side.idle, side.parked):
                with contextlib.suppress(IndexError):
                    while True:
                        bells.popleft().release()
