"""The list of workers of this package: who lives, who does not, and what each holds."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import OuterRef, Q, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from django_graphile_worker.admin import verdicts
from django_graphile_worker.admin.base import ReadOnlyAdmin
from django_graphile_worker.admin.counts import capped, capped_text
from django_graphile_worker.admin.links import link
from django_graphile_worker.models import Job, LockedJob, Worker


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    """Workers, the one started last first. Workers of other languages are not known here."""

    list_display = (
        "worker_id",
        "verdict",
        "why",
        "silent_for",
        "running",
        "concurrency",
        "host",
        "pid",
        "started_at",
    )
    # Few rows: there is one for each worker process, and dead ones go after minutes.
    ordering = ("-started_at", "worker_id")
    search_fields = ("worker_id", "host")
    search_help_text = _("A whole worker id or host name.")
    fields = (
        "worker_id",
        "verdict",
        "why",
        "running",
        "host",
        "pid",
        "concurrency",
        "started_at",
        "last_beat_at",
        "heartbeat",
        "stale_after",
        "stopping_at",
        "dead_at",
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Worker]:
        held = Job.objects.locked().filter(locked_by=OuterRef("worker_id"))
        found: QuerySet[Any] = (
            super()
            .get_queryset(request)
            .annotate(verdict=verdicts.OF_A_WORKER, held=capped(held), looked_at=Now())
        )
        return found

    def search(self, term: str) -> Q:
        return Q(worker_id=term) | Q(host=term)

    @admin.display(description=_("is"))
    def verdict(self, worker: Any) -> Any:
        return verdicts.LABELS[worker.verdict]

    @admin.display(description=_("why"))
    def why(self, worker: Any) -> Any:
        return verdicts.REASONS[worker.verdict]

    @admin.display(description=_("seconds since its last sign of life"))
    def silent_for(self, worker: Any) -> int:
        return max(int((worker.looked_at - worker.last_beat_at).total_seconds()), 0)

    @admin.display(description=_("jobs it holds"))
    def running(self, worker: Any) -> str:
        held = capped_text(worker.held)
        return link(self.admin_site, LockedJob, "changelist", held, q=worker.worker_id)
