"""Takes due jobs from the database, so that the slots have work."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from django_graphile_worker.jobs import LockedJob
from django_graphile_worker.statements import worker as statements
from django_graphile_worker.worker.connections import PASSING, Link
from django_graphile_worker.worker.service import Moment, OnEnd, Service

# Seconds of work that may be taken ahead of the free slots, at the pace measured over at least
# PACE_WINDOW seconds. Quick jobs are then fetched in batches, while jobs that take longer than this
# are left to whoever has a free slot.
AHEAD = 0.1
PACE_WINDOW = 0.05

# How long a drained queue is looked at again where due jobs exist that another transaction has
# locked at this moment, and the pause between two looks, in seconds.
INSIST = 1.0
INSIST_PAUSE = 0.05

# How soon to look again where too much is unwritten, in seconds: nobody tells when that has passed.
UNWRITTEN_PAUSE = 0.1


class Load(NamedTuple):
    """How busy the slots are: jobs handed to them and not ended; jobs ended since the start."""

    held: int
    finished: int


class Fetcher(Service):
    """Fetches on a connection of its own: when woken, and every `poll_interval` seconds.

    `load()` tells how busy the `concurrency` slots are, `feed(jobs)` hands them jobs, `may_fetch()`
    says no while too many ended jobs wait to be written down, `known_ids()` are the jobs that this
    pool has, ended ones included. At most `prefetch` jobs are taken ahead of free slots.

    With `once`, `on_drained()` is called and the thread ends when nothing is left to do;
    `settled()` then tells whether all ended jobs have been written down.
    """

    def __init__(
        self,
        *,
        link: Link,
        schema: str,
        worker_id: str,
        identifiers: Sequence[str],
        concurrency: int,
        prefetch: int,
        poll_interval: float,
        once: bool,
        load: Callable[[], Load],
        feed: Callable[[list[LockedJob]], None],
        may_fetch: Callable[[], bool],
        settled: Callable[[], bool],
        known_ids: Callable[[], Iterable[int]],
        on_drained: Callable[[], None],
        on_end: OnEnd,
    ) -> None:
        super().__init__("fetcher", on_end=on_end)
        self._link = link
        self._schema = schema
        self._worker_id = worker_id
        self._identifiers = identifiers
        self._concurrency = concurrency
        self._prefetch = prefetch
        self._poll_interval = poll_interval
        self._once = once
        self._load = load
        self._feed = feed
        self._may_fetch = may_fetch
        self._settled = settled
        self._known_ids = known_ids
        self._on_drained = on_drained
        self._answer_lost = False
        self._ahead = 0
        self._measured_at = time.monotonic()
        self._finished = 0
        self._insisting_until: float | None = None
        self.fetched = Moment()

    def work(self, number: int) -> None:
        try:
            while not self.stopping:
                try:
                    pause = self._look()
                except PASSING as error:
                    # Perhaps the server took jobs for us and only its answer was lost.
                    self._answer_lost = True
                    pause = self._link.pause(error)
                if pause is None:
                    return
                if pause:
                    self.wait(pause)
            if self._answer_lost:
                self._recover()
        except PASSING as error:
            self._link.pause(error)  # logged; the worker stops without those jobs
        finally:
            self._link.close()

    def _look(self) -> float | None:
        """Fetch once, if there is room. Return how long to wait, or `None` when drained."""
        if self._answer_lost:
            self._recover()
        # In this order: an ended job is in the completer's hands before it leaves its slot.
        quiet = self._load().held == 0 and self._settled()
        slots, room = self._wanted()
        if not room:
            return self._poll_interval
        if not self._may_fetch():
            return min(self._poll_interval, UNWRITTEN_PAUSE)
        jobs = self._link.run_after(
            statements.prepare_fetch(),
            statements.get_jobs(
                schema=self._schema,
                worker_id=self._worker_id,
                identifiers=self._identifiers,
                slots=slots,
                room=room,
            ),
        )
        if jobs:
            self._feed(jobs)
            self._insisting_until = None
        self.fetched.occur(jobs)
        # The jobs of one queue may have hidden those of the next from this look.
        if len(jobs) >= slots > 0 or any(job.queue_id is not None for job in jobs):
            return 0
        if self._once and quiet and not jobs:
            return self._drained()
        return self._poll_interval

    def _wanted(self) -> tuple[int, int]:
        """Return how many jobs could begin at once, and how many may be taken in all."""
        held, finished = self._load()
        now = time.monotonic()
        if (elapsed := now - self._measured_at) >= PACE_WINDOW:
            pace = (finished - self._finished) / elapsed
            self._ahead = min(self._prefetch, int(pace * AHEAD))
            self._measured_at, self._finished = now, finished
        slots = max(0, self._concurrency - held)
        room = max(0, self._concurrency + self._ahead - held)
        # With every slot busy there is no hurry: wait for half a batch.
        if not slots and room * 2 < self._ahead:
            return 0, 0
        return slots, room

    def _drained(self) -> float | None:
        """Tell the pool, unless there are due jobs that only happened to be locked by others."""
        now = time.monotonic()
        if self._insisting_until is None:
            self._insisting_until = now + INSIST
        if now < self._insisting_until and self._link.run(
            statements.due_jobs_exist(schema=self._schema, identifiers=self._identifiers)
        ):
            return INSIST_PAUSE
        self._on_drained()
        return None

    def _recover(self) -> None:
        """Take over the jobs of a fetch whose answer never came."""
        jobs = self._link.run(
            statements.get_unknown_jobs(
                schema=self._schema, worker_id=self._worker_id, known_ids=list(self._known_ids())
            )
        )
        self._answer_lost = False
        if jobs:
            self._feed(jobs)
