"""Every error this package raises, one line each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import timedelta

from django.core.exceptions import ImproperlyConfigured

# A pause beyond any use, and still within PostgreSQL's years, in seconds.
LONGEST_PAUSE = 100 * 366 * 86_400


class GraphileWorkerError(Exception):
    """The base of all errors of this package."""


class InvalidJob(GraphileWorkerError, ValueError):
    """A value for a job is out of bounds; raised before any SQL is sent."""


class InvalidJobType(InvalidJob, TypeError):
    """A value for a job has the wrong type; raised before any SQL is sent."""


class InvalidTask(GraphileWorkerError, ValueError):
    """A function cannot be registered as a task."""


class TaskAlreadyRegistered(InvalidTask):
    """Two different functions claim the same task identifier."""


class InvalidSetting(GraphileWorkerError, ImproperlyConfigured):
    """`settings.GRAPHILE_WORKER` holds an unknown name or a value out of bounds."""


class UnsupportedDatabase(GraphileWorkerError, ImproperlyConfigured):
    """The database alias is not PostgreSQL through psycopg 3."""


class JobNotStored(GraphileWorkerError):
    """The database took a request and stored nothing: its functions are not this package's."""


class QueueInUse(GraphileWorkerError):
    """A paused queue stays paused: a worker still runs a job that it had taken before the pause.

    `queue_name`, `job_id` and `worker_id` say which.
    """

    def __init__(self, queue_name: str, job_id: int, worker_id: str) -> None:
        super().__init__(
            f"queue {queue_name!r} cannot be resumed yet: worker {worker_id!r} still holds job "
            f"{job_id}, which was taken before the pause"
        )
        self.queue_name = queue_name
        self.job_id = job_id
        self.worker_id = worker_id


class SchemaConflict(GraphileWorkerError):
    """The database holds a schema that a migration must not touch."""


class SqlFileError(GraphileWorkerError):
    """An SQL file of this package is missing, or holds an unknown token."""


class Retry(GraphileWorkerError):
    """Raised by a task: this attempt failed, the next one is to begin `after` so long.

    `after` are seconds or a timedelta from now, 0 up to 100 years; `None`: the task's own pause.
    The attempt counts, so on the last one the job fails for good. Raises `InvalidJob` for a pause
    out of bounds.
    """

    def __init__(self, after: float | timedelta | None = None, reason: str = "") -> None:
        super().__init__(reason)
        self.after = None if after is None else seconds("after", after)
        self.reason = reason


class PermanentFailure(GraphileWorkerError):
    """Raised by a task: the job has failed, and is not tried again however many attempts it has."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class BatchFailure(GraphileWorkerError):
    """Raised by a task with an array as payload: only `items` have failed, and are tried again.

    They take the place of the payload, so they must be JSON and no more than came. With none of
    them the job has succeeded.
    """

    def __init__(self, items: Sequence[object], reason: str = "") -> None:
        super().__init__(reason)
        self.items = items
        self.reason = reason


class UnknownTask(GraphileWorkerError):
    """No function is registered here for the job's task identifier."""


def seconds(name: str, value: object, *, least: float = 0) -> float:
    """Return a number of seconds or a timedelta as seconds. Raises `InvalidJob` out of bounds."""
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if (
        isinstance(number, bool)
        or not isinstance(number, int | float)
        or not math.isfinite(number)
        or not least <= number <= LONGEST_PAUSE
    ):
        raise InvalidJob(
            f"{name} must be a timedelta or a number of seconds, {least:g} up to 100 years, "
            f"not {value!r:.80}"
        )
    return float(number)
