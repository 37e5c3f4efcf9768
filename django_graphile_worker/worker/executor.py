"""Runs jobs in slots: long-lived threads that take from one line themselves.

Nothing is handed over per job. An idle slot hangs a lock of its own into a list and waits on it;
whoever brings jobs wakes one slot, and a slot that took a job and sees more wakes the next before
it begins (measured: twice the throughput of a condition variable or a hand-over).
"""

from __future__ import annotations

import contextlib
import contextvars
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from asgiref.sync import async_to_sync

from django_graphile_worker import payloads
from django_graphile_worker.jobs import LockedJob, Outcome
from django_graphile_worker.worker import errors, hygiene
from django_graphile_worker.worker.service import Moment, OnEnd, Service

logger = logging.getLogger("graphile_worker")


class UnknownTask(Exception):
    """No function is registered here for the job's task identifier."""


class Executor(Service):
    """Runs at most `concurrency` jobs at a time, each in a thread with a clean Django state.

    `find_task(identifier)` gives something whose `bind(payload)` returns the arguments and which is
    then called; `on_outcome` gets what came of each job; `on_room` is called when a slot runs dry,
    or when half of the jobs last brought are begun.

    A sync task runs in the slot's thread. An async task runs on an event loop made for it alone,
    while its slot waits; its `sync_to_async` code runs in the slot's thread, on the slot's
    connections. Once stopping, no slot begins another job.
    """

    def __init__(
        self,
        *,
        concurrency: int,
        find_task: Callable[[str], Any],
        on_outcome: Callable[[Outcome], None],
        on_room: Callable[[], None],
        on_end: OnEnd,
    ) -> None:
        super().__init__("executor", on_end=on_end, threads=concurrency)
        self._find_task = find_task
        self._on_outcome = on_outcome
        self._on_room = on_room
        self._line: deque[LockedJob] = deque()
        self._low = 0
        self._idle: deque[threading.Lock] = deque()
        # By job id: everything fed and not ended. By slot: what runs there.
        self._held: dict[int, LockedJob] = {}
        self._running: dict[int, LockedJob] = {}
        self._done = [0] * concurrency
        self.begun = Moment()

    def feed(self, jobs: Sequence[LockedJob]) -> None:
        """Put jobs into the line, behind those that wait."""
        for job in jobs:
            self._held[job.id] = job
        self._line.extend(jobs)
        self._low = len(self._line) // 2
        self._wake_one()

    def take_back(self) -> list[LockedJob]:
        """Take all jobs out of the line that were not begun."""
        taken = []
        with contextlib.suppress(IndexError):
            while True:
                job = self._line.popleft()
                taken.append(job)
                del self._held[job.id]
        return taken

    def abandon(self) -> list[LockedJob]:
        """Disown the jobs that run now: what comes of them is dropped."""
        abandoned = []
        for slot in list(self._running):
            # The slot itself takes it out when the job ends; one of us gets it.
            if (job := self._running.pop(slot, None)) is not None:
                abandoned.append(job)
        return abandoned

    @property
    def held(self) -> int:
        """How many jobs were fed and have not ended."""
        return len(self._held)

    @property
    def finished(self) -> int:
        """How many jobs have ended since the start."""
        return sum(self._done)

    def held_ids(self) -> list[int]:
        """Return the ids of the jobs that were fed and have not ended."""
        return list(self._held)

    def wake(self) -> None:
        super().wake()
        with contextlib.suppress(IndexError):
            while True:
                self._idle.popleft().release()

    def work(self, number: int) -> None:
        asleep = threading.Lock()
        asleep.acquire()
        dry = False
        try:
            while not self.stopping:
                try:
                    job = self._line.popleft()
                except IndexError:
                    if dry:
                        self._on_room()
                        dry = False
                    self._rest(asleep)
                    continue
                if self._line:
                    self._wake_one()
                    if len(self._line) <= self._low:
                        self._low = -1
                        self._on_room()
                self._run_job(number, job)
                dry = True
        finally:
            hygiene.close_connections()

    def _rest(self, asleep: threading.Lock) -> None:
        self._idle.append(asleep)
        # Look once more: a job may have come before anybody could see that we are idle.
        if self._line or self.stopping:
            try:
                self._idle.remove(asleep)
            except ValueError:
                pass  # somebody is waking us already
            else:
                return
        asleep.acquire()

    def _wake_one(self) -> None:
        with contextlib.suppress(IndexError):
            self._idle.popleft().release()

    def _run_job(self, slot: int, job: LockedJob) -> None:
        self._running[slot] = job
        self.begun.occur(job)
        error = self._attempt(job)
        if self._running.pop(slot, None) is None:
            return  # abandoned meanwhile
        self._on_outcome(Outcome(job=job, error=error))
        del self._held[job.id]
        self._done[slot] += 1

    def _attempt(self, job: LockedJob) -> str | None:
        """Run the job; return `None`, or the text of the error that ended it. Never raises."""
        began = time.monotonic()
        try:
            hygiene.before_job()
            # In a context of its own: language, time zone, urlconf and whatever else is set while
            # a job runs ends with it.
            contextvars.Context().run(self._call, job)
        except BaseException as error:  # noqa: BLE001 - sys.exit() in a task ends that job only
            report(job, logging.ERROR, "failed", began, exc_info=error)
            return errors.describe(error)
        finally:
            hygiene.after_job()
        report(job, logging.DEBUG, "was completed", began)
        return None

    def _call(self, job: LockedJob) -> None:
        task = self._find_task(job.task_identifier)
        if task is None:
            raise UnknownTask(job.task_identifier)
        args, kwargs = task.bind(payloads.decode(job.payload))
        result = task(*args, **kwargs)
        if hasattr(result, "__await__"):
            error = async_to_sync(_error_of)(result)
            if error is not None:
                raise error


async def _error_of(awaitable: Any) -> BaseException | None:
    # Not raised through async_to_sync: its frames, and with them the thread of its event loop,
    # would live as long as somebody keeps the traceback.
    try:
        await awaitable
    except BaseException as error:  # noqa: BLE001 - raised again by the caller
        return error
    return None


def report(
    job: LockedJob,
    level: int,
    what: str,
    began: float,
    exc_info: BaseException | None = None,
) -> None:
    """Log how a job ended. Never raises: a broken log handler must not end a slot."""
    if logger.isEnabledFor(level):
        with contextlib.suppress(Exception):
            logger.log(
                level,
                "Job %s (%s) %s in attempt %s of %s, after %.1f ms.",
                job.id,
                job.task_identifier,
                what,
                job.attempts,
                job.max_attempts,
                (time.monotonic() - began) * 1000,
                exc_info=exc_info,
                extra={
                    "job_id": job.id,
                    "task_identifier": job.task_identifier,
                    "attempt": job.attempts,
                },
            )
