"""What a task may know of the attempt that runs it: `def task(context, ...)`."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django_graphile_worker.jobs import LockedJob, moment

logger = logging.getLogger("graphile_worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJob:
    """The job that is being run, as it stood when it was taken; without its payload.

    `attempts` counts the present one, from 1. `worker_id` is the name under which it is locked.
    """

    id: int
    task_identifier: str
    job_key: str | None
    priority: int
    run_at: datetime
    created_at: datetime
    attempts: int
    max_attempts: int
    revision: int
    flags: tuple[str, ...]
    worker_id: str


class JobLogger(logging.LoggerAdapter[logging.Logger]):
    """The logger `graphile_worker`, with the job's ids in the `extra` of each record."""

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        # Python 3.11's own would drop the caller's `extra`.
        kwargs["extra"] = {**(kwargs.get("extra") or {}), **(self.extra or {})}
        return msg, kwargs


class TaskContext:
    """One attempt to run a job; a task whose first parameter is called `context` is given it."""

    __slots__ = ("_deadline", "_job", "_logger", "_stopping", "cron", "database", "payload")

    def __init__(
        self,
        job: LockedJob,
        *,
        stopping: Callable[[], bool] = lambda: False,
        deadline: float | None = None,
        database: str = "default",
    ) -> None:
        self._job = job
        self._stopping = stopping
        self._deadline = deadline
        self._logger: JobLogger | None = None
        self.payload: Any = None
        """The payload as it was decoded; what the task is called with comes from it. `None` while
        it could not be read."""
        self.cron: Any = None
        """The `_cron` object of a job that a crontab made (`ts`, `backfilled`), else `None`."""
        self.database = database
        """The alias of the database that the job came from."""

    def __repr__(self) -> str:
        return (
            f"<TaskContext: job {self._job.id} ({self._job.task_identifier}), "
            f"attempt {self.attempt} of {self.max_attempts}>"
        )

    @property
    def job(self) -> RunningJob:
        """The job's id, task, key, times and so on."""
        job = self._job
        return RunningJob(
            id=job.id,
            task_identifier=job.task_identifier,
            job_key=job.key,
            priority=job.priority,
            run_at=moment(job.run_at),
            created_at=moment(job.created_at),
            attempts=job.attempts,
            max_attempts=job.max_attempts,
            revision=job.revision,
            flags=tuple(job.flags or ()),
            worker_id=job.locked_by,
        )

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self._job.attempts

    @property
    def max_attempts(self) -> int:
        """How many attempts the job has in all."""
        return self._job.max_attempts

    @property
    def is_last_attempt(self) -> bool:
        """Whether a failure of this attempt is for good."""
        return self._job.is_last_attempt

    @property
    def logger(self) -> JobLogger:
        """A logger whose records carry `job_id`, `task_identifier`, `attempt`, `worker_id`."""
        if self._logger is None:
            self._logger = JobLogger(logger, ids(self._job))
        return self._logger

    @property
    def should_stop(self) -> bool:
        """Whether the worker is stopping, or the task's `timeout` is over.

        A task that takes long should look at it now and then, and return or raise `Retry`.
        """
        return self._stopping() or self.is_overdue

    @property
    def is_overdue(self) -> bool:
        """Whether the task's `timeout` is over."""
        return self._deadline is not None and time.monotonic() >= self._deadline


def ids(job: LockedJob) -> dict[str, Any]:
    """Return what a log record about a job carries in `extra`."""
    return {
        "job_id": job.id,
        "task_identifier": job.task_identifier,
        "attempt": job.attempts,
        "worker_id": job.locked_by,
    }
