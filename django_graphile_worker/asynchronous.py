"""The client's calls for async code.

Each runs the sync call in asgiref's thread for sync code, where Django keeps the connection of the
view or task that awaits it: a job added there belongs to the transaction that is open there, if
one is. What was begun is finished, also where whoever awaits it is cancelled meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Unpack

from asgiref.sync import sync_to_async

from django_graphile_worker import client
from django_graphile_worker.jobs import EnqueuedJob, JobOptions, StoredJob
from django_graphile_worker.requests import JobRequest, TaskLike


async def aenqueue(
    task: TaskLike, payload: object = None, **options: Unpack[JobOptions]
) -> EnqueuedJob:
    """Do what `enqueue` does; arguments, result and errors are the same."""
    return await sync_to_async(client.enqueue)(task, payload, **options)


async def aenqueue_many(
    jobs: Iterable[TaskLike | tuple[TaskLike, object] | JobRequest],
    *,
    job_key_preserve_run_at: bool = False,
    using: str | None = None,
) -> list[EnqueuedJob]:
    """Do what `enqueue_many` does; arguments, result and errors are the same.

    `jobs` is read in the thread for sync code, so a generator there may use the ORM.
    """
    return await sync_to_async(client.enqueue_many)(
        jobs, job_key_preserve_run_at=job_key_preserve_run_at, using=using
    )


async def aremove_job(job_key: str, *, using: str | None = None) -> StoredJob | None:
    """Do what `remove_job` does; arguments, result and errors are the same."""
    return await sync_to_async(client.remove_job)(job_key, using=using)


async def acomplete_jobs(job_ids: Iterable[int], *, using: str | None = None) -> list[StoredJob]:
    """Do what `complete_jobs` does; arguments, result and errors are the same."""
    return await sync_to_async(client.complete_jobs)(job_ids, using=using)


async def apermanently_fail_jobs(
    job_ids: Iterable[int], error_message: str | None = None, *, using: str | None = None
) -> list[StoredJob]:
    """Do what `permanently_fail_jobs` does; arguments, result and errors are the same."""
    return await sync_to_async(client.permanently_fail_jobs)(job_ids, error_message, using=using)


async def areschedule_jobs(
    job_ids: Iterable[int],
    *,
    run_at: datetime | timedelta | None = None,
    priority: int | None = None,
    attempts: int | None = None,
    max_attempts: int | None = None,
    using: str | None = None,
) -> list[StoredJob]:
    """Do what `reschedule_jobs` does; arguments, result and errors are the same."""
    return await sync_to_async(client.reschedule_jobs)(
        job_ids,
        run_at=run_at,
        priority=priority,
        attempts=attempts,
        max_attempts=max_attempts,
        using=using,
    )


async def apause_queue(queue_name: str, *, using: str | None = None) -> bool:
    """Do what `pause_queue` does; arguments, result and errors are the same."""
    return await sync_to_async(client.pause_queue)(queue_name, using=using)


async def aresume_queue(queue_name: str, *, using: str | None = None) -> bool:
    """Do what `resume_queue` does; arguments, result and errors are the same."""
    return await sync_to_async(client.resume_queue)(queue_name, using=using)


async def aforce_unlock_workers(worker_ids: Iterable[str], *, using: str | None = None) -> None:
    """Do what `force_unlock_workers` does; arguments and errors are the same."""
    await sync_to_async(client.force_unlock_workers)(worker_ids, using=using)
