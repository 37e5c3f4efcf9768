"""The values that travel: what is asked for, what was stored, what a worker took, how it ended.

Frozen, without I/O and without Django. Times are aware datetimes in UTC; `payload` is JSON text,
decoded only where a task is about to run, so that one odd payload cannot spoil a whole batch.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime, timedelta


class JobKeyMode(enum.StrEnum):
    """What adding a job does when a stored job already holds its key (upstream's three modes)."""

    REPLACE = "replace"
    """Change the stored job in every attribute, `run_at` included."""
    PRESERVE_RUN_AT = "preserve_run_at"
    """As `REPLACE`, but keep `run_at` unless the stored job has failed attempts."""
    UNSAFE_DEDUPE = "unsafe_dedupe"
    """Change nothing: the stored job stays as it is, even while it runs or after it failed."""


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
class LockedJob:
    """A job that this worker pool has locked. `attempts` counts the attempt now begun, from 1.

    `queue_id` is the row of its named queue, locked together with the job at `locked_at`
    (database time); `None` for a job without queue.
    """

    id: int
    task_identifier: str
    payload: str
    key: str | None
    queue_id: int | None
    attempts: int
    max_attempts: int
    priority: int
    run_at: datetime
    created_at: datetime
    revision: int
    flags: tuple[str, ...]
    locked_at: datetime

    @property
    def is_last_attempt(self) -> bool:
        """Whether a failure of this attempt is permanent."""
        return self.attempts >= self.max_attempts


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a job ended. `error` is `None` for success, else the text for `last_error`."""

    job: LockedJob
    error: str | None = None
