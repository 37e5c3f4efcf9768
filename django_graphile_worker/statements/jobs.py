"""What an application asks of the queue: the published functions, one statement each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django_graphile_worker.exceptions import JobNotStored
from django_graphile_worker.jobs import EnqueuedJob, FreeJob, JobKeyMode, JobSpec, StoredJob
from django_graphile_worker.sql.loader import query
from django_graphile_worker.statements.base import Row, Statement

# So many say what is wrong; what goes beyond only takes time.
MOST_STRANDED = 1_000

_quote = json.JSONEncoder(ensure_ascii=False).encode


def add_job(spec: JobSpec, mode: JobKeyMode, schema: str) -> Statement[EnqueuedJob]:
    """Add one job. The names of task and queue are the spec's, which holds but for deduplication.

    Raises `JobNotStored` when the database gives no row, as an uncorrected `add_job` can.
    """

    def read(rows: Sequence[Row]) -> EnqueuedJob:
        if len(rows) != 1 or rows[0][0] is None:
            raise JobNotStored(_not_stored("add_job", 1, 0))
        return EnqueuedJob(**_added(rows[0], spec.identifier, spec.queue_name))

    run_at, delay = _when(spec.run_at)
    params = {
        "identifier": spec.identifier,
        "payload": spec.payload,
        "queue_name": spec.queue_name,
        "run_at": run_at,
        "delay": delay,
        "max_attempts": spec.max_attempts,
        "job_key": spec.job_key,
        "priority": spec.priority,
        "flags": None if spec.flags is None else list(spec.flags),
        "job_key_mode": str(mode),
    }
    return Statement("add_job", query("add_job", schema), params, read)


def add_jobs(
    specs: Sequence[JobSpec], preserve_run_at: bool, schema: str
) -> Statement[list[EnqueuedJob]]:
    """Add many jobs; the result has one job per spec, in the order of the specs.

    Raises `JobNotStored` when the database gives fewer rows, as an uncorrected `add_jobs` can.
    """

    def read(rows: Sequence[Row]) -> list[EnqueuedJob]:
        if len(rows) != len(specs):
            raise JobNotStored(_not_stored("add_jobs", len(specs), len(rows)))
        return [
            EnqueuedJob(**_added(row, spec.identifier, spec.queue_name))
            for spec, row in zip(specs, rows, strict=True)
        ]

    document = "[" + ",".join([_document(spec) for spec in specs]) + "]"
    params = {"specs": document, "job_key_preserve_run_at": preserve_run_at}
    return Statement("add_jobs", query("add_jobs", schema), params, read)


def enqueued_job(job_id: int, schema: str) -> Statement[EnqueuedJob]:
    """Read a job that this transaction has just touched, with the names of its task and queue."""

    def read(rows: Sequence[Row]) -> EnqueuedJob:
        (row,) = rows
        return EnqueuedJob(**_added(row, row[10], row[11]))

    return Statement("enqueued_job", query("enqueued_job", schema), {"id": job_id}, read)


def remove_job(job_key: str, schema: str) -> Statement[StoredJob | None]:
    """Remove the job that holds the key; `None` where none does."""

    def read(rows: Sequence[Row]) -> StoredJob | None:
        return next(iter(_stored(rows)), None)

    return Statement("remove_job", query("remove_job", schema), {"job_key": job_key}, read)


def lock_free_jobs(job_ids: Sequence[int], schema: str) -> Statement[list[FreeJob]]:
    """Lock those of the jobs that no worker holds, until the transaction ends."""
    text = query("admin_lock_jobs", schema)
    params = {"job_ids": list(job_ids)}
    return Statement("admin_lock_jobs", text, params, lambda rows: [FreeJob(*row) for row in rows])


def complete_jobs(job_ids: Sequence[int], schema: str) -> Statement[list[StoredJob]]:
    """Delete the jobs that no worker holds, and return them."""
    text = query("admin_complete_jobs", schema)
    return Statement("admin_complete_jobs", text, {"job_ids": list(job_ids)}, _stored)


def permanently_fail_jobs(
    job_ids: Sequence[int], error_message: str | None, schema: str
) -> Statement[list[StoredJob]]:
    """Take the remaining attempts from the jobs that no worker holds, and return them."""
    params = {"job_ids": list(job_ids), "error_message": error_message}
    text = query("admin_permanently_fail_jobs", schema)
    return Statement("admin_permanently_fail_jobs", text, params, _stored)


def reschedule_jobs(
    job_ids: Sequence[int],
    schema: str,
    *,
    run_at: datetime | timedelta | None,
    priority: int | None,
    attempts: int | None,
    max_attempts: int | None,
) -> Statement[list[StoredJob]]:
    """Change the jobs that no worker holds, and return them; `None` leaves a value as it is."""
    moment, delay = _when(run_at)
    params = {
        "job_ids": list(job_ids),
        "run_at": moment,
        "delay": delay,
        "priority": priority,
        "attempts": attempts,
        "max_attempts": max_attempts,
    }
    text = query("admin_reschedule_jobs", schema)
    return Statement("admin_reschedule_jobs", text, params, _stored)


def force_unlock_workers(worker_ids: Sequence[str], schema: str) -> Statement[None]:
    """Free every job and every named queue that the workers hold."""
    text = query("admin_force_unlock_workers", schema)
    params = {"worker_ids": list(worker_ids)}
    return Statement("admin_force_unlock_workers", text, params, lambda rows: None)


def count_stranded_jobs(*, schema: str, most: int = MOST_STRANDED) -> Statement[int]:
    """Count the jobs that nobody ever runs, since the row of their task or queue is gone.

    At most `most` of them. Only jobs that could be run otherwise are looked at.
    """
    return Statement(
        "count_stranded_jobs",
        query("count_stranded_jobs", schema),
        {"most": most},
        lambda rows: int(rows[0][0]),
    )


def _when(run_at: datetime | timedelta | None) -> tuple[datetime | None, timedelta | None]:
    if isinstance(run_at, timedelta):
        return None, run_at
    return run_at, None


def _document(spec: JobSpec) -> str:
    """Return the spec as a JSON object; what is not there is null to the database."""
    run_at, delay = _when(spec.run_at)
    parts = [f'{{"identifier":{_quote(spec.identifier)}']
    if spec.payload is not None:
        parts.append(f'"payload":{spec.payload}')
    if spec.queue_name is not None:
        parts.append(f'"queue_name":{_quote(spec.queue_name)}')
    if run_at is not None:
        parts.append(f'"run_at":"{run_at.isoformat()}"')
    if delay is not None:
        # Days and seconds apart: as seconds alone a long delay would lose its microseconds.
        parts.append(f'"delay":"{delay.days} days {delay.seconds}.{delay.microseconds:06} seconds"')
    if spec.max_attempts is not None:
        parts.append(f'"max_attempts":{spec.max_attempts}')
    if spec.job_key is not None:
        parts.append(f'"job_key":{_quote(spec.job_key)}')
    if spec.priority is not None:
        parts.append(f'"priority":{spec.priority}')
    if spec.flags is not None:
        parts.append(f'"flags":{_quote(spec.flags)}')
    return ",".join(parts) + "}"


def _added(row: Row, task_identifier: str, queue_name: str | None) -> dict[str, Any]:
    id, key, revision, run_at, priority, attempts, max_attempts, created_at, updated_at, flags = (
        row[:10]
    )
    return {
        "id": id,
        "task_identifier": task_identifier,
        "queue_name": queue_name,
        "job_key": key,
        "revision": revision,
        "run_at": run_at.replace(tzinfo=UTC),
        "priority": priority,
        "attempts": attempts,
        "max_attempts": max_attempts,
        "created_at": created_at.replace(tzinfo=UTC),
        "updated_at": updated_at.replace(tzinfo=UTC),
        "flags": _flags(flags),
    }


def _stored(rows: Sequence[Row]) -> list[StoredJob]:
    return [
        StoredJob(
            **_added(row, row[10], row[11]),
            last_error=row[12],
            locked_at=row[13] and row[13].replace(tzinfo=UTC),
            locked_by=row[14],
        )
        for row in rows
    ]


def _not_stored(function: str, wanted: int, stored: int) -> str:
    return (
        f"The database's {function} stored {stored} of {wanted} jobs and raised nothing: it is not "
        "the function that this package installs. Did another installer replace it?"
    )


def _flags(text: str | None) -> tuple[str, ...]:
    # A row made by hand may hold something that is no object: then it has no flags.
    value = None if text is None else json.loads(text)
    return tuple(sorted(value)) if isinstance(value, dict) else ()
