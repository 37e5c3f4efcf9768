"""Lists to look at the queue with. They show and never change: there is no add, change or delete.

A project that wants other lists unregisters these and registers its own subclasses.
"""

from __future__ import annotations

from django_graphile_worker.admin.conflicts import KeyConflictAdmin
from django_graphile_worker.admin.jobs import JobAdmin
from django_graphile_worker.admin.locks import LockedJobAdmin, LockedQueueAdmin

__all__ = ["JobAdmin", "KeyConflictAdmin", "LockedJobAdmin", "LockedQueueAdmin"]
