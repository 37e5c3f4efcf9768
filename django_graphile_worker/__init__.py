"""Background jobs for Django on PostgreSQL, with Graphile Worker's schema.

Safe to import before the app registry is ready: no model is imported here.
"""

from __future__ import annotations

from django_graphile_worker.asynchronous import (
    acomplete_jobs,
    aenqueue,
    aenqueue_many,
    aforce_unlock_workers,
    apause_queue,
    apermanently_fail_jobs,
    aremove_job,
    areschedule_jobs,
    aresume_queue,
)
from django_graphile_worker.client import (
    complete_jobs,
    enqueue,
    enqueue_many,
    force_unlock_workers,
    pause_queue,
    permanently_fail_jobs,
    remove_job,
    reschedule_jobs,
    resume_queue,
)
from django_graphile_worker.context import TaskContext
from django_graphile_worker.exceptions import BatchFailure, PermanentFailure, QueueInUse, Retry
from django_graphile_worker.installation import install_schema
from django_graphile_worker.jobs import (
    EnqueuedJob,
    JobKeyMode,
    JobOptions,
    StoredJob,
)
from django_graphile_worker.registry import Task, task
from django_graphile_worker.requests import JobRequest

__version__ = "0.1.0.dev0"

__all__ = [
    "BatchFailure",
    "EnqueuedJob",
    "JobKeyMode",
    "JobOptions",
    "JobRequest",
    "PermanentFailure",
    "QueueInUse",
    "Retry",
    "StoredJob",
    "Task",
    "TaskContext",
    "acomplete_jobs",
    "aenqueue",
    "aenqueue_many",
    "aforce_unlock_workers",
    "apause_queue",
    "apermanently_fail_jobs",
    "aremove_job",
    "areschedule_jobs",
    "aresume_queue",
    "complete_jobs",
    "enqueue",
    "enqueue_many",
    "force_unlock_workers",
    "install_schema",
    "pause_queue",
    "permanently_fail_jobs",
    "remove_job",
    "reschedule_jobs",
    "resume_queue",
    "task",
]
