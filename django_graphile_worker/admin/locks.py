"""The lists of locked rows: jobs and named queues that a worker holds, the longest held first."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.db.models import OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from django.urls import path, reverse
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from django_graphile_worker.admin import unlock, verdicts
from django_graphile_worker.admin.base import ReadOnlyAdmin
from django_graphile_worker.admin.jobs import JobListAdmin
from django_graphile_worker.fields import TimestampField
from django_graphile_worker.models import JobQuerySet, LockedJob, LockedQueue, Worker
from django_graphile_worker.statements.queues import PAUSED


class OwnerMixin:
    """Columns that tell who holds a row, and a page to unlock all that this worker holds."""

    change_list_template: Any = "admin/graphile_worker/locked_rows.html"

    @staticmethod
    def with_owners(rows: QuerySet[Any]) -> QuerySet[Any]:
        beats = Worker.objects.filter(pk=OuterRef("locked_by")).values("last_beat_at")
        annotated: QuerySet[Any] = rows.annotate(
            verdict=verdicts.of_owner(),
            owner_beat_at=Subquery(beats, output_field=TimestampField()),
            looked_at=Now(),
        )
        return annotated

    def get_urls(self) -> list[Any]:
        meta = self.model._meta  # type: ignore[attr-defined]
        page = self.admin_site.admin_view(self.unlock_view)  # type: ignore[attr-defined]
        name = f"{meta.app_label}_{meta.model_name}_unlock"
        return [path("unlock/", page, name=name), *super().get_urls()]  # type: ignore[misc]

    def unlock_view(self, request: HttpRequest) -> HttpResponse:
        return unlock.view(self, request)

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:
        columns: tuple[str, ...] = tuple(super().get_list_display(request))  # type: ignore[misc]
        may = request.user.has_perm(unlock.UNLOCK_PERMISSION)
        # Where it is seen without scrolling, after the reason.
        place = columns.index("why") + 1 if "why" in columns else len(columns)
        return (*columns[:place], "unlock_link", *columns[place:]) if may else columns

    @admin.display(description=_("held for"))
    def held_for(self, row: Any) -> str:
        seconds = int((row.looked_at - row.locked_at).total_seconds())
        minutes, seconds = divmod(max(seconds, 0), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02}:{seconds:02}"

    @admin.display(description=_("owner's last sign of life"))
    def owner_beat(self, row: Any) -> Any:
        return _("never") if row.owner_beat_at is None else row.owner_beat_at

    @admin.display(description=_("owner is"))
    def owner(self, row: Any) -> Any:
        return verdicts.LABELS[row.verdict]

    @admin.display(description=_("why"))
    def why(self, row: Any) -> Any:
        return verdicts.REASONS[row.verdict]

    @admin.display(description=_("unlock"))
    def unlock_link(self, row: Any) -> str:
        if row.locked_by is None:
            return "-"
        meta = self.model._meta  # type: ignore[attr-defined]
        url = reverse(
            f"admin:{meta.app_label}_{meta.model_name}_unlock",
            current_app=self.admin_site.name,  # type: ignore[attr-defined]
        )
        return format_html(
            '<a href="{}?{}" aria-label="{}">{}</a>',
            url,
            urlencode({"worker": row.locked_by}),
            _("Unlock worker %(worker)s") % {"worker": row.locked_by},
            _("Unlock"),
        )


@admin.register(LockedJob)
class LockedJobAdmin(OwnerMixin, JobListAdmin):
    """Jobs that a worker holds."""

    list_display = (
        "id",
        "task_identifier",
        "held_for",
        "locked_by",
        "owner",
        "why",
        "owner_beat",
        "key",
        "queue_name",
        "locked_at",
        "attempts_of_max",
    )
    # The order of the index of locked rows.
    ordering = ("locked_at", "id")
    search_help_text = _(
        "An id, a whole job key, the beginning of a task identifier, or a whole worker id."
    )

    def get_queryset(self, request: HttpRequest) -> JobQuerySet:
        rows: Any = self.with_owners(super().get_queryset(request).locked())
        return rows  # type: ignore[no-any-return]

    def search(self, term: str) -> Q:
        return super().search(term) | Q(locked_by=term)


@admin.register(LockedQueue)
class LockedQueueAdmin(OwnerMixin, ReadOnlyAdmin):
    """Named queues that a worker holds; not those that are paused, which nobody does."""

    list_display = (
        "queue_name",
        "held_for",
        "locked_by",
        "owner",
        "why",
        "owner_beat",
        "locked_at",
    )
    ordering = ("locked_at", "id")
    search_fields = ("queue_name", "locked_by")
    search_help_text = _("A whole queue name or worker id.")
    fields = ("id", "queue_name", "locked_at", "locked_by")

    def get_queryset(self, request: HttpRequest) -> QuerySet[LockedQueue]:
        locked = super().get_queryset(request).filter(is_available=False)
        return self.with_owners(locked.exclude(locked_by=PAUSED))

    def search(self, term: str) -> Q:
        return Q(queue_name=term) | Q(locked_by=term)
