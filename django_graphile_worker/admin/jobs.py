"""The list of jobs, and the page of one job."""

from __future__ import annotations

from typing import Any, ClassVar, cast

from django.contrib import admin
from django.db.models import Case, CharField, F, Q, QuerySet, TextField, Value, When
from django.db.models.functions import Cast, Left, Now
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from django_graphile_worker.admin.base import ReadOnlyAdmin, as_id
from django_graphile_worker.models import Job, JobQuerySet, Task

PAYLOAD_PERMISSION = "graphile_worker.view_payload"

# How much of a payload or an error is shown, in characters.
SHOWN = 20_000

STATES = {
    "ready": (_("ready"), Q(is_available=True, run_at__lte=Now())),
    "scheduled": (_("scheduled"), Q(is_available=True, run_at__gt=Now(), attempts=0)),
    "retrying": (_("retrying"), Q(is_available=True, run_at__gt=Now(), attempts__gt=0)),
    "running": (_("running"), Q(is_available=False, locked_at__isnull=False)),
    "failed": (
        _("failed"),
        Q(is_available=False, locked_at__isnull=True, attempts__gte=F("max_attempts")),
    ),
}
"""Every job is in exactly one of these, by the database's clock."""


class StateFilter(admin.SimpleListFilter):
    """Jobs of one state."""

    title = _("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [(state, label) for state, (label, _condition) in STATES.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        state = self.value()
        return queryset.filter(STATES[state][1]) if state in STATES else queryset


@admin.register(Job)
class JobAdmin(ReadOnlyAdmin):
    """Jobs, newest first."""

    list_display: tuple[Any, ...] = (
        "id",
        "state",
        "task_identifier",
        "queue_name",
        "key",
        "priority",
        "run_at",
        "attempts_of_max",
        "locked_by",
    )
    list_filter: ClassVar[tuple[Any, ...]] = (StateFilter,)
    search_fields = ("id", "key", "task__identifier")
    search_help_text = _("An id, a whole job key, or the beginning of a task identifier.")
    fields = (
        "id",
        "state",
        "task_identifier",
        "queue_name",
        "key",
        "priority",
        "run_at",
        "attempts",
        "max_attempts",
        "last_error_text",
        "created_at",
        "updated_at",
        "locked_at",
        "locked_by",
        "revision",
        "flags",
    )

    def get_queryset(self, request: HttpRequest) -> JobQuerySet:
        jobs = cast(JobQuerySet, super().get_queryset(request))
        state = Case(
            *(When(condition, then=Value(name)) for name, (_label, condition) in STATES.items()),
            output_field=CharField(),
        )
        # Never with the row: a list has no use for it, and one job's may be large.
        return jobs.with_names().annotate(state=state).defer("payload")

    def get_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        may_see = request.user.has_perm(PAYLOAD_PERMISSION)
        return (*self.fields, "payload_text") if may_see else self.fields

    def search(self, term: str) -> Q:
        # The tasks first: they are few, and jobs can then be found through their indexes.
        tasks = Task.objects.filter(identifier__startswith=term).values_list("pk", flat=True)
        found = Q(key=term)
        if ids := list(tasks[:100]):
            found |= Q(task_id__in=ids)
        if (number := as_id(term)) is not None:
            found |= Q(pk=number)
        return found

    @admin.display(description=_("state"))
    def state(self, job: Any) -> Any:
        return STATES[job.state][0]

    @admin.display(description=_("task"))
    def task_identifier(self, job: Any) -> str:
        return job.task_identifier or self.get_empty_value_display()

    @admin.display(description=_("named queue"))
    def queue_name(self, job: Any) -> str:
        return job.queue_name or self.get_empty_value_display()

    @admin.display(description=_("attempts"))
    def attempts_of_max(self, job: Job) -> str:
        return f"{job.attempts}/{job.max_attempts}"

    @admin.display(description=_("last error"))
    def last_error_text(self, job: Job) -> str:
        return self._block(job.last_error)

    @admin.display(description=_("payload"))
    def payload_text(self, job: Job) -> str:
        # As text and cut by the database: it may be large, and more than Python can decode. It is
        # a query of its own, so the job may be gone by now.
        text = Left(Cast("payload", TextField()), SHOWN + 1)
        jobs = Job.objects.using(job._state.db).filter(pk=job.pk)
        return self._block(jobs.annotate(text=text).values_list("text", flat=True).first())

    def _block(self, text: str | None) -> str:
        """Return a long text as a block, cut where a page could no longer show it."""
        if text is None:
            return self.get_empty_value_display()
        cut = "…" if len(text) > SHOWN else ""
        return format_html('<pre style="white-space: pre-wrap">{}{}</pre>', text[:SHOWN], cut)
