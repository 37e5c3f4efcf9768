"""The values that travel: what is asked for, what was stored, what a worker took, how it ended.

Frozen, without I/O and without Django. Times are aware datetimes in UTC; `payload` is JSON text,
decoded only where a task is about to run, so that one odd payload cannot spoil a whole batch.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, TypedDict

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = (datetime.min.replace(tzinfo=UTC) - EPOCH).total_seconds()
_LAST = (datetime.max.replace(microsecond=0, tzinfo=UTC) - EPOCH).total_seconds()


class JobKeyMode(enum.StrEnum):
    """What adding a job does when a stored job already holds its key (upstream's three modes)."""

    REPLACE = "replace"
    """Change the stored job in every attribute, `run_at` included."""
    PRESERVE_RUN_AT = "preserve_run_at"
    """As `REPLACE`, but keep `run_at` unless the stored job has failed attempts."""
    UNSAFE_DEDUPE = "unsafe_dedupe"
    """Change nothing but `revision` and `updated_at`, even while it runs or after it failed."""


class JobOptions(TypedDict, total=False):
    """How a job is to be stored: for `@task(...)`, `Task.using(...)` and `enqueue(...)` alike.

    An option that is left out is the task's own, then the default named here; `None` means that
    default, whatever the task says.
    """

    queue_name: str | None
    """A named queue, 1..128 characters: its jobs run one at a time. Default: none, in parallel."""
    run_at: datetime | timedelta | None
    """The earliest start: an aware datetime, or a timedelta that is added to the database's clock
    at the moment of the call. A naive datetime is refused under `USE_TZ` and taken in `TIME_ZONE`
    without it. Default: at once."""
    max_attempts: int | None
    """How often the job may be begun, 1..32767. Default: the setting `MAX_ATTEMPTS`."""
    job_key: str | None
    """The name of a pending wish, 1..512 characters, unique among all tasks. Default: none."""
    job_key_mode: JobKeyMode | str | None
    """What happens to the stored job that holds the key. Default: `"replace"`."""
    priority: int | None
    """-32768..32767, the lower the sooner. Default: 0."""
    flags: Collection[str] | None
    """Marks that a worker can be told to leave alone. Default: none."""
    using: str | None
    """The database alias. Default: the first of the setting `DATABASES`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """A request for one job, validated. `None` means the database's default.

    `payload` is JSON text. `run_at` is an aware datetime, or a timedelta that the database adds to
    its own clock. `job_key_mode` stands outside: it belongs to the call, not to the job.
    """

    identifier: str
    payload: str | None = None
    queue_name: str | None = None
    run_at: datetime | timedelta | None = None
    max_attempts: int | None = None
    job_key: str | None = None
    priority: int | None = None
    flags: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EnqueuedJob:
    """A job as it stood right after it was added; a snapshot, without the payload.

    `revision` counts the times a request with the same `job_key` changed this row, from 0.
    `run_at` is cut to the years 1..9999 (a row made by hand may hold `infinity`); `flags` are
    sorted.
    """

    id: int
    task_identifier: str
    queue_name: str | None
    job_key: str | None
    revision: int
    run_at: datetime
    priority: int
    attempts: int
    max_attempts: int
    created_at: datetime
    updated_at: datetime
    flags: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredJob(EnqueuedJob):
    """A job as an operator's verb left it, or as it was when that verb deleted it; a snapshot.

    `locked_at` is `None` unless a worker, named by `locked_by`, holds the job. To the operators'
    verbs a lock older than four hours counts for nothing.
    """

    last_error: str | None
    locked_at: datetime | None
    locked_by: str | None


class FreeJob(NamedTuple):
    """A job that no worker holds, and that the transaction of who looks has locked meanwhile."""

    id: int
    key: str | None
    has_attempts: bool
    """Whether an attempt is left; without one it has failed permanently."""
    is_due: bool


class LockedJob(NamedTuple):
    """A job that this worker pool has locked. `attempts` counts the attempt now begun, from 1.

    A named tuple, since it is made from a row in C: thirty thousand a second are read. `run_at` and
    `created_at` are seconds since 1970 (`moment` makes a datetime of them).

    `queue_id` is the row of its named queue, locked together with the job at `locked_at`
    (database time); both are `None` for a job without queue. `locked_by` is the name under which
    the pool took it, which changes when the pool is declared dead and comes back.
    """

    id: int
    task_identifier: str
    payload: str
    key: str | None
    queue_id: int | None
    attempts: int
    max_attempts: int
    priority: int
    run_at: float
    created_at: float
    revision: int
    flags: Sequence[str] | None
    locked_at: datetime | None
    locked_by: str

    @property
    def is_last_attempt(self) -> bool:
        """Whether a failure of this attempt is permanent."""
        return self.attempts >= self.max_attempts


class Outcome(NamedTuple):
    """How a job ended. `error` is `None` for success, else the text for `last_error`.

    Of a failure: `retry_after` are the seconds from now until the next attempt (`None`: the
    queue's own backoff), `permanent` says that there is none, and `payload` is the JSON text of
    what is left of a batch (`None`: all of it).

    `began` is when the attempt did, by `time.monotonic()`; 0 where it never did.
    """

    job: LockedJob
    error: str | None = None
    retry_after: float | None = None
    permanent: bool = False
    payload: str | None = None
    began: float = 0.0


def moment(seconds: float) -> datetime:
    """Return `seconds` since 1970 as an aware datetime in UTC, cut to the years 1..9999.

    A row made by hand may hold `infinity`.
    """
    return EPOCH + timedelta(seconds=min(max(seconds, _FIRST), _LAST))
