"""Writes down how jobs ended, in batches, without ever waiting for a row that somebody has locked.

Whatever has gathered while the last batch was written is the next batch: a job alone is written at
once, a busy worker's jobs by the hundred. What a batch misses is tried again later, with others.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable

from django_graphile_worker.context import ids
from django_graphile_worker.jobs import LockedJob, Outcome
from django_graphile_worker.worker.connections import PASSING, Link
from django_graphile_worker.worker.endings import Ending, How, Writer
from django_graphile_worker.worker.identity import Identity
from django_graphile_worker.worker.service import Moment, OnEnd, Service

logger = logging.getLogger("graphile_worker")

BATCH = 500

# While so many ended jobs wait to be written down, no others should be taken.
MOST_UNWRITTEN = 2_000

# The pause before a job that was missed is tried again doubles up to this, in seconds.
LONGEST_PAUSE = 1.0
# The same while stopping, when there is nothing else to do.
LAST_PAUSE = 0.05


class Completer(Service):
    """Completes, fails and returns jobs on a connection of its own.

    `on_run(endings)` is given what has been run and written, then `on_written(queue_freed)` called,
    after each batch. When stopped it writes what is left; a row
    that a caller's transaction holds is waited for, but no longer than `last_wait` seconds for all.

    What came of a job that was taken under another name than `identity` has now is dropped: the
    pool was declared dead meanwhile, and the job may be running elsewhere.
    """

    def __init__(
        self,
        *,
        link: Link,
        schema: str,
        identity: Identity,
        last_wait: float,
        on_written: Callable[[bool], None],
        on_end: OnEnd,
        on_run: Callable[[list[Ending]], None] = lambda endings: None,
    ) -> None:
        super().__init__("completer", on_end=on_end)
        self._link = link
        self._writer = Writer(link, schema)
        self._identity = identity
        self._last_wait = last_wait
        self._on_written = on_written
        self._on_run = on_run
        # Fresh: not tried yet. Writing: on its way. Missed: the row or the queue was locked, or the
        # connection broke; by the object, since a job may end under a former name as well.
        self._fresh: deque[Ending] = deque()
        self._writing: list[Ending] = []
        self._missed: dict[int, Ending] = {}
        self._asleep = False
        self.counts = dict.fromkeys(How, 0)
        self.written = Moment()

    def add(self, outcome: Outcome) -> None:
        """Take over a job that was run."""
        how = How.COMPLETED if outcome.error is None else How.FAILED
        self._fresh.append(Ending(outcome, how, time.monotonic()))
        if self._asleep:
            self.wake()

    def give_back(self, jobs: Iterable[LockedJob]) -> None:
        """Take over jobs that were not begun."""
        self._fresh.extend(Ending(Outcome(job), How.RETURNED) for job in jobs)
        self.wake()

    @property
    def settled(self) -> bool:
        """Whether each job was tried at least once, and no named queue is held still."""
        return not (
            self._fresh
            or self._writing
            or any(ending.queue_held for ending in list(self._missed.values()))
        )

    @property
    def backlog(self) -> int:
        """How many jobs the database does not know about yet."""
        return len(self._fresh) + len(self._writing) + len(self._missed)

    def jobs(self) -> list[LockedJob]:
        """Return the jobs whose end the database does not know about yet."""
        # In this order: a job goes from fresh to writing to missed, and is in both meanwhile.
        return [
            *(ending.job for ending in self._fresh.copy()),
            *(ending.job for ending in list(self._writing)),
            *(ending.job for ending in list(self._missed.values())),
        ]

    def hurry(self) -> None:
        """Wait for nobody's row any more."""
        self._last_wait = 0
        self.wake()

    def report_unwritten(self) -> None:
        """Log the jobs that the database was not told about."""
        # By object: what was missed is on its way again, where the writer is stuck in a statement.
        left = [*self._writing, *self._fresh, *self._missed.values()]
        for ending in {id(ending): ending for ending in left}.values():
            what = "that could not be written; it" if ending.job_held else "its named queue"
            logger.error(
                f"Job %s (%s) was %s, but {what} stays locked by %s.",
                ending.job.id,
                ending.job.task_identifier,
                ending.how.value,
                ending.job.locked_by,
                extra=ids(ending.job),
            )

    def work(self, number: int) -> None:
        stopped_at: float | None = None
        try:
            self._link.open_early()  # while there is nothing to write
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
                    if left <= 0 and (broken or not self._fresh):
                        return
                    pause = min(pause or 0, max(left, 0), LAST_PAUSE)
                if broken:
                    self.wait(pause)
                elif pause != 0:
                    self._sleep(pause)
        finally:
            self._link.close()

    def _sleep(self, seconds: float | None) -> None:
        self._asleep = True
        # Look once more: a job may have come before anybody could see that we are asleep.
        if not self._fresh:
            self.wait(seconds)
        self._asleep = False

    def _write_due(self) -> float | None:
        """Write one batch. Return how long to wait before the next, `None` until woken."""
        now = time.monotonic()
        batch = self._writing
        # A copy first: until it is written a job must be known to be here.
        batch.extend(self._fresh.copy() if len(self._fresh) <= BATCH else self._first(BATCH))
        for _ in batch:
            self._fresh.popleft()
        if self._missed:
            due = [e for e in self._missed.values() if e.due <= now or self.stopping]
            batch.extend(due[:BATCH])
        if batch:
            self._write(batch)
        if self._fresh:
            return 0
        if not self._missed:
            return None
        return max(0, min(ending.due for ending in self._missed.values()) - time.monotonic())

    def _first(self, count: int) -> list[Ending]:
        return [self._fresh[place] for place in range(count)]

    def _write(self, batch: list[Ending]) -> None:
        freed = False
        try:
            worker_id = self._identity.worker_id
            ours = [ending for ending in batch if ending.job.locked_by == worker_id]
            if len(ours) < len(batch):
                self._drop(ending for ending in batch if ending.job.locked_by != worker_id)
            if ours and worker_id is not None:
                freed = self._writer.write(worker_id, ours)
        except PASSING:
            for ending in ours:
                ending.in_doubt = True
                self._keep(ending)
            self._writing = []
            raise
        run = []
        for ending in ours:
            if ending.held:
                self._keep(ending)
            else:
                self.counts[ending.how] += 1
                if ending.how is not How.RETURNED:
                    run.append(ending)
                if self._missed:
                    self._missed.pop(id(ending), None)
        self._writing = []
        if run:
            self._on_run(run)
        self.written.occur(batch)
        self._on_written(freed)

    def _keep(self, ending: Ending) -> None:
        ending.due = time.monotonic() + ending.pause
        ending.pause = min(LONGEST_PAUSE, ending.pause * 2)
        self._missed[id(ending)] = ending

    def _drop(self, endings: Iterable[Ending]) -> None:
        for ending in endings:
            ending.job_held = ending.queue_held = False
            self._missed.pop(id(ending), None)
            logger.warning(
                "Job %s (%s) was taken by %s, which was declared dead; that it was %s is dropped.",
                ending.job.id,
                ending.job.task_identifier,
                ending.job.locked_by,
                ending.how.value,
                extra=ids(ending.job),
            )
