"""One attempt to run a job: from its payload to what came of it. Never raises.

The same for threads and for coroutines, which differ only in how the function is called. Each job
has a `contextvars.Context` of its own: language, time zone, urlconf and whatever else is set while
it runs ends with it.
"""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any

from django_graphile_worker import payloads, signals
from django_graphile_worker.context import TaskContext, ids
from django_graphile_worker.exceptions import (
    BatchFailure,
    InvalidJob,
    PermanentFailure,
    Retry,
    UnknownTask,
    seconds,
)
from django_graphile_worker.jobs import LockedJob, Outcome
from django_graphile_worker.registry import Task
from django_graphile_worker.worker import errors

logger = logging.getLogger("graphile_worker")

AnyTask = Task[Any, Any]
Wrapper = Callable[[TaskContext], AbstractContextManager[Any]]


class Attempts:
    """What all attempts of a worker have in common, and what is done before and after a call."""

    def __init__(
        self, *, wrapper: Wrapper | None, stopping: Callable[[], bool], database: str
    ) -> None:
        self.wrapper = wrapper
        self._stopping = stopping
        self._database = database

    def context(self, job: LockedJob, task: AnyTask | None, began: float) -> TaskContext | None:
        """Return the job's context, if anybody is to be given it."""
        if not (
            self.wrapper is not None
            or (task is not None and (task.takes_context or task.timeout is not None))
            or signals.job_started.receivers
            or signals.job_succeeded.receivers
            or signals.job_failed.receivers
        ):
            return None
        timeout = None if task is None else task.timeout
        return TaskContext(
            job,
            stopping=self._stopping,
            deadline=None if timeout is None else began + timeout,
            database=self._database,
        )

    def arguments(
        self, job: LockedJob, task: AnyTask | None, context: TaskContext | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of the call. Raises `InvalidJob`, `UnknownTask`."""
        if task is None:
            raise UnknownTask(job.task_identifier)
        payload = payloads.decode(job.payload)
        args, kwargs = task.bind(payload)
        if context is not None:
            context.payload = payload
            context.cron = payload.get("_cron") if isinstance(payload, dict) else None
            if task.takes_context:
                args = (context, *args)
        return args, kwargs

    def succeeded(self, job: LockedJob, result: object, began: float) -> Outcome:
        """Return the outcome of a call that returned; of a batch, items may have failed.

        Raises `BatchFailure` if so.
        """
        if result and isinstance(result, list | tuple) and job.payload.lstrip()[:1] == "[":
            if _are_items(result, job):
                raise BatchFailure(result)
            _tell(
                job,
                logging.WARNING,
                "Job %s (%s) returned a list that holds other things than items of its batch; it "
                "is taken for a result, so the job has succeeded.",
            )
        if logger.isEnabledFor(logging.DEBUG):
            _log(job, logging.DEBUG, "was completed", began)
        return Outcome(job, None, None, False, None, began)

    def failed(
        self, job: LockedJob, task: AnyTask | None, error: BaseException, began: float
    ) -> Outcome:
        """Return the outcome of a call that raised, and log it."""
        if isinstance(error, Retry):
            pause = self._pause(job, task) if error.after is None else error.after
            why = f" ({error.reason})" if error.reason else ""
            _log(job, logging.INFO, f"asked for another attempt{why}", began)
            return Outcome(job, errors.describe(error), retry_after=pause, began=began)
        if isinstance(error, PermanentFailure):
            _log(job, logging.ERROR, "failed for good", began, error)
            return Outcome(job, errors.describe(error), permanent=True, began=began)
        if isinstance(error, BatchFailure):
            return self._partly_failed(job, task, error, began)
        _log(job, logging.ERROR, "failed", began, error)
        pause = self._pause(job, task)
        return Outcome(job, errors.describe(error), retry_after=pause, began=began)

    def _partly_failed(
        self, job: LockedJob, task: AnyTask | None, error: BatchFailure, began: float
    ) -> Outcome:
        try:
            total = len(_batch(job))
            items = list(error.items)
            if len(items) > total:
                raise InvalidJob(f"{len(items)} items failed, of a batch of {total}")
            # In ASCII, so that what another language stored can go back as it was.
            payload = json.dumps(items, allow_nan=False, separators=(",", ":"))
            payloads.decode(payload)
        except BaseException as fault:  # noqa: BLE001 - items may be anything
            wrong = InvalidJob(f"the failed items cannot be kept, all are tried again: {fault}")
            wrong.__cause__ = error
            _log(job, logging.ERROR, "failed", began, wrong)
            pause = self._pause(job, task)
            return Outcome(job, errors.describe(wrong), retry_after=pause, began=began)
        if not items:
            return Outcome(job, began=began)
        why = f": {error.reason}" if error.reason else ""
        text = f"BatchFailure: {len(items)} of {total} items failed{why}"
        _log(job, logging.ERROR, f"failed with {len(items)} of {total} items", began)
        pause = self._pause(job, task)
        return Outcome(job, errors.storable(text), retry_after=pause, payload=payload, began=began)

    def _pause(self, job: LockedJob, task: AnyTask | None) -> float | None:
        """Return the pause that the task itself wants; `None` for the queue's own."""
        if task is None or task.backoff is None:
            return None
        try:
            return seconds("backoff", task.backoff(job.attempts))
        except BaseException as error:  # noqa: BLE001 - somebody else's code
            what = "The pause after job %s (%s) is the queue's own: its task's backoff failed."
            _tell(job, logging.ERROR, what, error=error)
            return None


def ends(outcome: Outcome) -> bool:
    """Whether a failed attempt was the last one."""
    return outcome.permanent or outcome.job.is_last_attempt


def report_late(job: LockedJob, timeout: float) -> None:
    """Log that a sync task has taken longer than its timeout, while it goes on."""
    what = "Job %s (%s) runs for longer than its timeout of %g s; a thread cannot be ended."
    _tell(job, logging.WARNING, what, timeout)


def _batch(job: LockedJob) -> list[Any]:
    payload = payloads.decode(job.payload)
    if not isinstance(payload, list):
        raise InvalidJob("the payload is not an array")
    return payload


def _are_items(result: list[Any] | tuple[Any, ...], job: LockedJob) -> bool:
    """Whether all of `result` are items of the job's batch, none more often than there."""
    try:
        batch = Counter(json.dumps(item, sort_keys=True) for item in _batch(job))
        return Counter(json.dumps(item, sort_keys=True) for item in result) <= batch
    except Exception:  # noqa: BLE001 - what is not JSON is no item
        return False


def _log(
    job: LockedJob, level: int, what: str, began: float, error: BaseException | None = None
) -> None:
    _tell(
        job,
        level,
        "Job %s (%s) %s in attempt %s of %s, after %.1f ms.",
        what,
        job.attempts,
        job.max_attempts,
        (time.monotonic() - began) * 1000,
        error=error,
    )


def _tell(
    job: LockedJob, level: int, text: str, *args: object, error: BaseException | None = None
) -> None:
    """Log something about a job. Never raises: a broken log handler must not end a slot."""
    with suppress(BaseException):
        logger.log(level, text, job.id, job.task_identifier, *args, exc_info=error, extra=ids(job))
