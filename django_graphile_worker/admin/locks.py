"""The lists of locked rows: jobs and named queues that a worker holds, the longest held first."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from django_graphile_worker.admin.base import ReadOnlyAdmin
from django_graphile_worker.admin.jobs import JobAdmin
from django_graphile_worker.models import JobQuerySet, LockedJob, LockedQueue


@admin.register(LockedJob)
class LockedJobAdmin(JobAdmin):
    """Jobs that a worker holds."""

    list_display = (
        "id",
        "task_identifier",
        "queue_name",
        "key",
        "locked_at",
        "locked_by",
        "attempts_of_max",
    )
    list_filter = ()
    # The order of the index of locked rows.
    ordering = ("locked_at", "id")
    search_help_text = _(
        "An id, a whole job key, the beginning of a task identifier, or a whole worker id."
    )

    def get_queryset(self, request: HttpRequest) -> JobQuerySet:
        return super().get_queryset(request).locked()

    def search(self, term: str) -> Q:
        return super().search(term) | Q(locked_by=term)


@admin.register(LockedQueue)
class LockedQueueAdmin(ReadOnlyAdmin):
    """Named queues that a worker holds."""

    list_display = ("queue_name", "locked_at", "locked_by")
    ordering = ("locked_at", "id")
    search_fields = ("queue_name", "locked_by")
    search_help_text = _("A whole queue name or worker id.")
    fields = ("id", "queue_name", "locked_at", "locked_by")

    def get_queryset(self, request: HttpRequest) -> QuerySet[LockedQueue]:
        return super().get_queryset(request).filter(is_available=False)

    def search(self, term: str) -> Q:
        return Q(queue_name=term) | Q(locked_by=term)
