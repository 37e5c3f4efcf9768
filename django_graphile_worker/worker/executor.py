"""Runs jobs in slots: threads for sync tasks, coroutines of one event loop for async ones.

All are long-lived and take jobs from one line themselves. Nothing is handed over per job (measured:
twice the throughput of a condition variable, or of a thread that distributes).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from django_graphile_worker.jobs import LockedJob, Outcome
from django_graphile_worker.worker.async_slots import AsyncSlots
from django_graphile_worker.worker.attempt import AnyTask, Attempts, Wrapper
from django_graphile_worker.worker.line import Line
from django_graphile_worker.worker.service import Moment, OnEnd, Service
from django_graphile_worker.worker.slots import Surroundings
from django_graphile_worker.worker.sync_slots import SyncSlots

# A job that was taken ahead and has waited this long for a slot, in seconds, should be given back
# with all behind it: another process may be idle.
LONGEST_WAIT = 2.0


class Executor(Service):
    """Runs at most `concurrency` jobs at a time, sync and async together, in the order fed.

    `find_task(identifier)` gives the task, or `None`; `on_outcome` gets what came of each job
    before it is no more `held`; `on_room` is called when a slot runs dry, or when half of the jobs
    last brought are begun. `wrapper(context)`, if given, makes a context manager that is entered
    around each job. `database` is the alias that jobs are told to come from.

    Once stopping, no slot begins another job.
    """

    def __init__(
        self,
        *,
        concurrency: int,
        find_task: Callable[[str], AnyTask | None],
        on_outcome: Callable[[Outcome], None],
        on_room: Callable[[], None],
        on_end: OnEnd,
        wrapper: Wrapper | None = None,
        database: str = "default",
    ) -> None:
        # One thread more for the loop, and one to watch over timeouts.
        super().__init__("executor", on_end=on_end, threads=concurrency + 2)
        self._concurrency = concurrency
        self._find_task = find_task
        self._on_outcome = on_outcome
        stopping = self._stopping.is_set
        self._line = Line(is_async=self._is_async, stopping=stopping, on_room=on_room)
        # Everything fed and not ended, by the object: once this worker was declared dead, a job may
        # come again while its attempt under the former name still runs. By slot: what runs there.
        self._held: dict[int, LockedJob] = {}
        self._running: dict[int, LockedJob] = {}
        self._done = [0] * (2 * concurrency)
        around = Surroundings(
            line=self._line,
            find_task=find_task,
            attempts=Attempts(wrapper=wrapper, stopping=stopping, database=database),
            begin=self._begin,
            end=self._end,
            stopping=stopping,
        )
        self._sync_slots = SyncSlots(around)
        self._async_slots = AsyncSlots(around, first=concurrency, count=concurrency)
        self.begun = Moment()

    def feed(self, jobs: Sequence[LockedJob]) -> None:
        """Put jobs into the line, behind those that wait."""
        for job in jobs:
            self._held[id(job)] = job
        self._line.feed(jobs)

    def take_back(self, older_than: float | None = None) -> list[LockedJob]:
        """Take all jobs out of the line that were not begun.

        With `older_than` only if the first of them has waited for longer than so many seconds.
        """
        if older_than is not None and self._line.waited() <= older_than:
            return []
        taken = self._line.take_back()
        for job in taken:
            del self._held[id(job)]
        return taken

    def abandon(self) -> list[LockedJob]:
        """Disown the jobs that run now: what comes of them is dropped.

        Async ones are cancelled, and get a second to end.
        """
        abandoned = []
        cancelled = {}
        for slot in list(self._running):
            # The slot itself takes it out when the job ends; one of us gets it.
            if (job := self._running.pop(slot, None)) is not None:
                abandoned.append(job)
                if slot >= self._concurrency:
                    cancelled[slot] = job
        self._async_slots.cancel(cancelled)
        return abandoned

    @property
    def held(self) -> int:
        """How many jobs were fed and have not ended."""
        return len(self._held)

    @property
    def finished(self) -> int:
        """How many jobs have ended since the start."""
        return sum(self._done)

    def held_jobs(self) -> list[LockedJob]:
        """Return the jobs that were fed and have not ended."""
        return list(self._held.values())

    def wake(self) -> None:
        super().wake()
        self._sync_slots.wake()
        self._line.wake_all()
        self._async_slots.wake()

    def work(self, number: int) -> None:
        if number < self._concurrency:
            self._sync_slots.run(number)
        elif number == self._concurrency:
            threading.current_thread().name = "graphile_worker loop"
            self._async_slots.run()
        else:
            threading.current_thread().name = "graphile_worker timeouts"
            self._sync_slots.watch()

    def _begin(self, slot: int, job: LockedJob) -> None:
        self._running[slot] = job
        self.begun.occur(job)

    def _end(self, slot: int, outcome: Outcome) -> None:
        if self._running.pop(slot, None) is None:
            return  # abandoned meanwhile
        self._on_outcome(outcome)
        del self._held[id(outcome.job)]
        self._done[slot] += 1

    def _is_async(self, job: LockedJob) -> bool:
        task = self._find_task(job.task_identifier)
        return task is not None and task.is_async
