"""The list of attempts that have failed, by job or by task."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet, TextField
from django.db.models.functions import Left
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from django_graphile_worker.admin.base import ReadOnlyAdmin, as_id
from django_graphile_worker.models import JobError

# How much of an error is read, in characters: one may have megabytes.
IN_A_LIST = 200
ON_A_PAGE = 20_000


@admin.register(JobError)
class JobErrorAdmin(ReadOnlyAdmin):
    """Failed attempts, newest first; those of workers of this package."""

    list_display = (
        "id",
        "failed_at",
        "job_id",
        "task_identifier",
        "attempt",
        "max_attempts",
        "worker_id",
        "beginning",
    )
    search_fields = ("job_id", "task_identifier", "worker_id")
    search_help_text = _("The id of a job, a whole task identifier, or a whole worker id.")
    fields = (
        "id",
        "job_id",
        "task_identifier",
        "attempt",
        "max_attempts",
        "worker_id",
        "locked_at",
        "failed_at",
        "error_text",
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[JobError]:
        found: QuerySet[Any] = (
            super()
            .get_queryset(request)
            .annotate(text=Left("error", ON_A_PAGE + 1, output_field=TextField()))
            .defer("error")
        )
        return found

    def search(self, term: str) -> Q:
        found = Q(task_identifier=term) | Q(worker_id=term)
        if (number := as_id(term)) is not None:
            found |= Q(job_id=number)
        return found

    @admin.display(description=_("error"))
    def beginning(self, error: Any) -> str:
        text: str = error.text
        return text[:IN_A_LIST] + ("…" if len(text) > IN_A_LIST else "")

    @admin.display(description=_("error"))
    def error_text(self, error: Any) -> str:
        cut = "…" if len(error.text) > ON_A_PAGE else ""
        return format_html(
            '<pre style="white-space: pre-wrap">{}{}</pre>', error.text[:ON_A_PAGE], cut
        )
