"""Lists to look at the queue with. There is no add, change or delete; what a worker holds can be
unlocked.

A project that wants other lists unregisters these and registers its own subclasses.
"""

from __future__ import annotations

from django_graphile_worker.admin.conflicts import KeyConflictAdmin
from django_graphile_worker.admin.errors import JobErrorAdmin
from django_graphile_worker.admin.jobs import JobAdmin
from django_graphile_worker.admin.locks import LockedJobAdmin, LockedQueueAdmin
from django_graphile_worker.admin.overview import OverviewAdmin
from django_graphile_worker.admin.queues import JobQueueAdmin
from django_graphile_worker.admin.tasks import TaskAdmin
from django_graphile_worker.admin.workers import WorkerAdmin

__all__ = [
    "JobAdmin",
    "JobErrorAdmin",
    "JobQueueAdmin",
    "KeyConflictAdmin",
    "LockedJobAdmin",
    "LockedQueueAdmin",
    "OverviewAdmin",
    "TaskAdmin",
    "WorkerAdmin",
]
