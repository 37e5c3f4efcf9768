"""Writes down how jobs ended, in batches, without ever waiting for a row that somebody has locked.

Whatever has gathered while the last batch was written is the next batch: a job alone is written at
once, a busy worker's jobs by the hundred. What a batch misses is tried again later, with others.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable

from django_graphile_worker.jobs import LockedJob, Outcome
from django_graphile_worker.worker.connections import PASSING, Link
from django_graphile_worker.worker.endings import Ending, How, Writer
from django_graphile_worker.worker.service import Moment, OnEnd, Service

logger = logging.getLogger("graphile_worker")

BATCH = 500

# The pause before a job that was missed is tried again doubles up to this, in seconds.
LONGEST_PAUSE = 1.0
# The same while stopping, when there is nothing else to do.
LAST_PAUSE = 0.05


class Completer(Service):
    """Completes, fails and returns jobs on a connection of its own.

    `on_written(queue_freed)` is called after each batch. When stopped it writes what is left; a row
    that a caller's transaction holds is waited for, but no longer than `last_wait` seconds for all.
    """

    def __init__(
        self,
        *,
        link: Link,
        schema: str,
        worker_id: str,
        last_wait: float,
        on_written: Callable[[bool], None],
        on_end: OnEnd,
    ) -> None:
        super().__init__("completer", on_end=on_end)
        self._link = link
        self._writer = Writer(link, schema, worker_id)
        self._worker_id = worker_id
        self._last_wait = last_wait
        self._on_written = on_written
        # By job id. Fresh: not tried yet. Missed: tried, the row or the queue was locked.
        self._fresh: dict[int, Ending] = {}
        self._missed: dict[int, Ending] = {}
        self.written = Moment()

    def add(self, outcome: Outcome) -> None:
        """Take over a job that was run."""
        how = How.COMPLETED if outcome.error is None else How.FAILED
        self._add(outcome.job, how, outcome.error or "")

    def give_back(self, jobs: Iterable[LockedJob]) -> None:
        """Take over jobs that were not begun."""
        for job in jobs:
            self._add(job, How.RETURNED)

    @property
    def settled(self) -> bool:
        """Whether each job was tried at least once."""
        return not self._fresh

    @property
    def backlog(self) -> int:
        """How many jobs the database does not know about yet."""
        return len(self._fresh) + len(self._missed)

    def job_ids(self) -> list[int]:
        """Return the ids of the jobs that the database does not know about yet."""
        # In this order: from fresh a job moves to missed, and is in both meanwhile.
        return [*self._fresh, *self._missed]

    def hurry(self) -> None:
        """Wait for nobody's row any more."""
        self._last_wait = 0
        self.wake()

    def report_unwritten(self) -> None:
        """Log the jobs that the database was not told about."""
        for ending in [*self._fresh.values(), *self._missed.values()]:
            logger.error(
                "Job %s (%s) was %s, but that could not be written; it stays locked by %s.",
                ending.job.id,
                ending.job.task_identifier,
                ending.how.value,
                self._worker_id,
            )

    def work(self, number: int) -> None:
        stopped_at: float | None = None
        try:
            while True:
                if self.stopping and stopped_at is None:
                    stopped_at = time.monotonic()
                broken = False
                try:
                    pause = self._write_due()
                except PASSING as error:
                    broken = True
                    pause = self._link.pause(error)
                if stopped_at is not None:
                    left = stopped_at + self._last_wait - time.monotonic()
                    if not self.backlog:
                        return
                    if left <= 0 and (broken or self.settled):
                        return
                    pause = min(pause or 0, max(left, 0), LAST_PAUSE)
                if pause != 0:
                    self.wait(pause)
        finally:
            self._link.close()

    def _add(self, job: LockedJob, how: How, error: str = "") -> None:
        self._fresh[job.id] = Ending(job, how, error, True, job.queue_id is not None)
        self.wake()

    def _write_due(self) -> float | None:
        """Write one batch. Return how long to wait before the next, `None` until woken."""
        now = time.monotonic()
        batch = list(self._fresh.values())[:BATCH]
        batch += [ending for ending in self._missed.values() if ending.due <= now or self.stopping][
            :BATCH
        ]
        if batch:
            self._write(batch)
        if self._fresh:
            return 0
        if not self._missed:
            return None
        return max(0, min(ending.due for ending in self._missed.values()) - time.monotonic())

    def _write(self, batch: list[Ending]) -> None:
        try:
            freed = self._writer.write(batch)
        except PASSING:
            for ending in batch:
                ending.in_doubt = True
            raise
        for ending in batch:
            self._settle(ending)
        self.written.occur(batch)
        self._on_written(freed)

    def _settle(self, ending: Ending) -> None:
        job_id = ending.job.id
        if ending.job_held or ending.queue_held:
            ending.due = time.monotonic() + ending.pause
            ending.pause = min(LONGEST_PAUSE, ending.pause * 2)
            self._missed[job_id] = ending
        elif self._missed.get(job_id) is ending:
            del self._missed[job_id]
        if self._fresh.get(job_id) is ending:
            del self._fresh[job_id]
