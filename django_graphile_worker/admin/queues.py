"""The list of named queues: who holds each, and what waits in it."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import OuterRef, Q, QuerySet, Subquery
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from django_graphile_worker.admin import links, verdicts
from django_graphile_worker.admin.base import ReadOnlyAdmin
from django_graphile_worker.admin.counts import are_due, due_text
from django_graphile_worker.admin.pausing import PausingMixin
from django_graphile_worker.fields import TimestampField
from django_graphile_worker.models import Job, JobQueue


@admin.register(JobQueue)
class JobQueueAdmin(PausingMixin, ReadOnlyAdmin):
    """Named queues, the newest first."""

    list_display = (
        "queue_name",
        "ready",
        "for_later",
        "first_due",
        "owner",
        "jobs_link",
        "holder",
        "held_since",
    )
    search_fields = ("queue_name", "locked_by")
    search_help_text = _("A whole queue name or worker id.")
    fields = (
        "id",
        "queue_name",
        "ready",
        "for_later",
        "first_due",
        "owner",
        "holder",
        "held_since",
        "jobs_link",
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[JobQueue]:
        waiting = Job.objects.filter(job_queue_id=OuterRef("pk"), is_available=True)
        # The index of named queues is in the order that workers take them in.
        first = waiting.order_by("priority", "run_at").values("run_at")[:1]
        found: QuerySet[Any] = (
            super()
            .get_queryset(request)
            .annotate(
                waiting=are_due(waiting),
                first_run_at=Subquery(first, output_field=TimestampField()),
                verdict=verdicts.of_owner(),
            )
        )
        return found

    def search(self, term: str) -> Q:
        return Q(queue_name=term) | Q(locked_by=term)

    @admin.display(description=_("ready"))
    def ready(self, queue: Any) -> str:
        return due_text(queue.waiting, True)

    @admin.display(description=_("for later"))
    def for_later(self, queue: Any) -> str:
        return due_text(queue.waiting, False)

    @admin.display(description=_("its first job is due at"))
    def first_due(self, queue: Any) -> Any:
        return queue.first_run_at

    @admin.display(description=_("jobs"))
    def jobs_link(self, queue: Any) -> str:
        return links.to_jobs(self.admin_site, queue=queue.queue_name)

    # The holder of a queue that is paused is nobody, and holds it since no time.
    @admin.display(description=_("locked by"))
    def holder(self, queue: Any) -> Any:
        return None if queue.verdict == "paused" else queue.locked_by

    @admin.display(description=_("locked at"))
    def held_since(self, queue: Any) -> Any:
        return None if queue.verdict == "paused" else queue.locked_at

    @admin.display(description=_("owner is"))
    def owner(self, queue: Any) -> Any:
        if queue.is_available:
            return self.get_empty_value_display()
        return verdicts.LABELS[queue.verdict]
