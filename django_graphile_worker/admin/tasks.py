"""The list of task identifiers, and what waits for each."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import OuterRef, Q, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from django_graphile_worker.admin import links
from django_graphile_worker.admin.base import ReadOnlyAdmin
from django_graphile_worker.admin.counts import are_due, due_text
from django_graphile_worker.models import Job, Task


@admin.register(Task)
class TaskAdmin(ReadOnlyAdmin):
    """Task identifiers that were once used, the newest first.

    Counted are jobs outside of named queues: no index leads from a task to those within, or to the
    failed ones, and reading all jobs for it would take seconds on a large table.
    """

    list_display = ("identifier", "ready", "for_later", "jobs_link")
    search_fields = ("identifier",)
    search_help_text = _("The beginning of a task identifier.")
    fields = ("id", "identifier", "ready", "for_later", "jobs_link")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Task]:
        waiting = Job.objects.filter(
            task_id=OuterRef("pk"), is_available=True, job_queue_id__isnull=True
        )
        found: QuerySet[Any] = super().get_queryset(request).annotate(waiting=are_due(waiting))
        return found

    def search(self, term: str) -> Q:
        return Q(identifier__startswith=term)

    @admin.display(description=_("ready outside of named queues"))
    def ready(self, task: Any) -> str:
        return due_text(task.waiting, True)

    @admin.display(description=_("for later outside of named queues"))
    def for_later(self, task: Any) -> str:
        return due_text(task.waiting, False)

    @admin.display(description=_("jobs"))
    def jobs_link(self, task: Any) -> str:
        return links.to_jobs(self.admin_site, task=task.identifier)
