"""Keyed-job conflicts: each time a keyed job was added while its holder was taken."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from django_graphile_worker.admin import trends
from django_graphile_worker.admin.base import ReadOnlyAdmin, as_id
from django_graphile_worker.admin.links import link
from django_graphile_worker.models import Job, KeyConflict

# Of the live ones, and of those of a key. The record holds 100,000 in all.
SHOWN = 50
PERIODS = (
    ("hour", _("in the last hour"), timedelta(hours=1)),
    ("day", _("in the last 24 hours"), timedelta(days=1)),
    ("week", _("in the last 7 days"), timedelta(days=7)),
)


def live(conflicts: QuerySet[KeyConflict]) -> QuerySet[KeyConflict]:
    """Return those whose superseded job still runs while its successor is stored.

    Led by the jobs that are locked: they are few and have an index, and so has the record by the
    superseded job.
    """
    running = Job.objects.using(conflicts.db).locked().values("pk")
    successor = Job.objects.using(conflicts.db).filter(pk=OuterRef("successor_job_id"))
    found = conflicts.filter(superseded_job_id__in=running, outcome__isnull=True)
    return found.filter(Exists(successor), superseded_state="locked")


@admin.register(KeyConflict)
class KeyConflictAdmin(ReadOnlyAdmin):
    """Supersedings, newest first; those that are live stand above."""

    change_list_template = "admin/graphile_worker/conflicts.html"
    list_display = (
        "id",
        "key_link",
        "recorded_at",
        "superseded_job",
        "successor_job",
        "superseded_state",
        "outcome",
        "ran_for",
        "superseded_task",
        "successor_task",
        "superseded_locked_by",
        "finished_at",
    )
    search_fields = ("key", "superseded_task", "successor_task", "superseded_job_id")
    search_help_text = _("A whole job key or task identifier, or the id of either job.")

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(self.key_view)
        name = f"{self.opts.app_label}_{self.opts.model_name}_key"
        return [path("key/", view, name=name), *super().get_urls()]

    def search(self, term: str) -> Q:
        found = Q(key=term) | Q(superseded_task=term) | Q(successor_task=term)
        if (number := as_id(term)) is not None:
            found |= Q(superseded_job_id=number) | Q(successor_job_id=number)
        return found

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        found = live(self.get_queryset(request)).order_by("-id")[: SHOWN + 1]
        context = {"live": self._shown(found), "shown": SHOWN} | (extra_context or {})
        return super().changelist_view(request, context)

    def key_view(self, request: HttpRequest) -> HttpResponse:
        """Show how often one key is fought over, by which tasks, and the newest conflicts."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        key = request.GET.get("key", "").replace("\0", "")
        conflicts = self.get_queryset(request).filter(key=key)
        counts = conflicts.aggregate(
            total=Count("pk"),
            **{
                name: Count("pk", filter=Q(recorded_at__gte=Now() - period))
                for name, _label, period in PERIODS
            },
        )
        tasks = conflicts.order_by().values("superseded_task", "successor_task")
        context = {
            **self.admin_site.each_context(request),
            "title": _("Conflicts of a key"),
            "opts": self.opts,
            "back": self._url("changelist"),
            "key": key,
            "total": counts["total"],
            "periods": [(label, counts[name]) for name, label, _period in PERIODS],
            "charts": trends.draw(conflicts),
            "tasks": tasks.annotate(times=Count("pk")).order_by("-times")[:SHOWN],
            "newest": self._shown(conflicts.order_by("-id")[:SHOWN]),
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "admin/graphile_worker/conflicts_of_key.html", context)

    def _shown(self, conflicts: QuerySet[KeyConflict]) -> list[dict[str, Any]]:
        return [
            {
                "row": row,
                "key": self.key_link(row),
                "superseded": self.superseded_job(row),
                "successor": self.successor_job(row),
                "ran_for": self.ran_for(row),
            }
            for row in conflicts
        ]

    def _url(self, page: str, *args: Any) -> str:
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_{page}"
        return reverse(name, args=args, current_app=self.admin_site.name)

    def _job(self, pk: int) -> str:
        return link(self.admin_site, Job, "change", pk, pk)

    @admin.display(description=_("key"))
    def key_link(self, conflict: Any) -> str:
        query = urlencode({"key": conflict.key})
        return format_html('<a href="{}?{}">{}</a>', self._url("key"), query, conflict.key)

    @admin.display(description=_("superseded job"))
    def superseded_job(self, conflict: Any) -> str:
        return self._job(conflict.superseded_job_id)

    @admin.display(description=_("successor job"))
    def successor_job(self, conflict: Any) -> str:
        return self._job(conflict.successor_job_id)

    @admin.display(description=_("seconds the superseded job ran"))
    def ran_for(self, conflict: Any) -> str:
        begun, ended = conflict.superseded_locked_at, conflict.finished_at
        if begun is None or ended is None:
            return self.get_empty_value_display()
        return f"{max((ended - begun).total_seconds(), 0):.1f}"
