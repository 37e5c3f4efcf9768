"""The list of jobs, and what the lists of jobs have in common."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar, cast

from django.contrib import admin
from django.db.models import Case, CharField, Q, QuerySet, Value, When
from django.http import HttpRequest, HttpResponse, QueryDict
from django.utils.translation import gettext_lazy as _

from django_graphile_worker import transactions
from django_graphile_worker.admin import job_lists
from django_graphile_worker.admin.acting import ActingMixin
from django_graphile_worker.admin.actions import ACT_PERMISSION, demand, has_act_permission
from django_graphile_worker.admin.base import ReadOnlyAdmin, as_id
from django_graphile_worker.admin.job_lists import STATES, Wanted
from django_graphile_worker.admin.job_page import JobPageMixin, block, payload_block
from django_graphile_worker.models import Job, JobQuerySet, JobQueue, Task

# Names that are offered to choose from, and tasks that one search finds.
NAMES = 100


class _Parameter(admin.SimpleListFilter):
    """A part of the address that `JobAdmin` reads itself; it has no place beside the list."""

    title: Any = ""

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return []

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset


class StateFilter(_Parameter):
    title = _("state")
    parameter_name = "state"


class TaskFilter(_Parameter):
    title = _("task")
    parameter_name = "task"


class QueueFilter(_Parameter):
    title = _("named queue")
    parameter_name = "queue"


class JobListAdmin(JobPageMixin, ReadOnlyAdmin):
    """What a list of jobs shows, whichever of them; there is nothing to be done with them."""

    search_fields = ("id", "key", "task__identifier")

    def get_queryset(self, request: HttpRequest) -> JobQuerySet:
        jobs = cast(JobQuerySet, super().get_queryset(request))
        state = Case(
            *(When(condition, then=Value(name)) for name, (_label, condition) in STATES.items()),
            output_field=CharField(),
        )
        # Never with the row: a list has no use for it, and one job's may be large.
        return jobs.with_names().annotate(state=state).defer("payload")

    def search(self, term: str) -> Q:
        return Q(pk__in=_ids_found(term)) | Q(task_id__in=_tasks_found(term))

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
        return block(job.last_error)

    @admin.display(description=_("payload"))
    def payload_text(self, job: Job) -> str:
        return payload_block(job)


@admin.register(Job)
class JobAdmin(ActingMixin, JobListAdmin):
    """Jobs by state, and the actions on them."""

    acts = True
    change_list_template = "admin/graphile_worker/jobs.html"
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
    list_filter: ClassVar[tuple[Any, ...]] = (StateFilter, TaskFilter, QueueFilter)
    search_help_text = _("An id, a whole job key, or the beginning of a task identifier.")

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        return job_lists.ORDERS.get(request.GET.get("state", ""), job_lists.NEWEST)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        term = search_term.strip()
        wanted = Wanted(
            state=request.GET.get("state"),
            tasks=_ids_of(Task.objects.all(), "identifier", request.GET.get("task")),
            queues=_ids_of(JobQueue.objects.all(), "queue_name", request.GET.get("queue")),
            ids=_ids_found(term) if term else (),
        )
        searched = _tasks_found(term) if term else None
        jobs = cast(JobQuerySet, queryset)
        return job_lists.narrow(jobs, wanted, searched=searched), False

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if request.method == "POST":  # Django would ignore an action that somebody may not do
            demand(self, request, ACT_PERMISSION)
        is_narrow = any(request.GET.get(name) for name in ("q", "task", "queue"))
        state = request.GET.get("state")
        alias = transactions.alias(None)
        may_view = self.has_view_permission(request)
        context = {
            "tabs": self._tabs(request, is_narrow) if may_view else [],
            "state": state if state in STATES else None,
            "is_narrow": is_narrow,
            # Where it would be more than the list's own cap says.
            "look": job_lists.LOOK
            if may_view and is_narrow and job_lists.oldest_looked_at(alias) is not None
            else None,
            "can_run_matching": has_act_permission(request)
            and (is_narrow or state in ("scheduled", "retrying", "failed"))
            and state not in ("ready", "running"),
            "matching_query": request.GET.urlencode(),
        }
        return super().changelist_view(request, context | (extra_context or {}))

    def _tabs(self, request: HttpRequest, is_narrow: bool) -> list[dict[str, Any]]:
        """Return the states to choose from. Beside a search there are no counts: each would be one.

        A page and a state are left behind; what else narrows the list is kept.
        """
        counts = {} if is_narrow else job_lists.counts(transactions.alias(None))
        kept = request.GET.copy()
        for name in ("p", "e", "state"):
            kept.pop(name, None)
        current = request.GET.get("state")
        states: list[tuple[str | None, Any]] = [
            (None, _("all")),
            *((name, label) for name, (label, _q) in STATES.items()),
        ]
        tabs = []
        for state, label in states:
            query: QueryDict = kept.copy()
            if state is not None:
                query["state"] = state
            is_current = state == (current if current in STATES else None)
            tab = {"label": label, "count": counts.get(state), "is_current": is_current}
            tabs.append(tab | {"query": query.urlencode()})
        return tabs

    def task_names(self) -> list[str]:
        """Return names that the field for a task offers."""
        return list(Task.objects.order_by("-pk").values_list("identifier", flat=True)[:NAMES])

    def queue_names(self) -> list[str]:
        return list(JobQueue.objects.order_by("-pk").values_list("queue_name", flat=True)[:NAMES])


def _ids_of(rows: QuerySet[Any], column: str, name: str | None) -> Collection[int] | None:
    if not name:
        return None
    return list(rows.filter(**{column: name.replace("\0", "")}).values_list("pk", flat=True))


def _ids_found(term: str) -> list[int]:
    """Return the ids of jobs whose id or key is the term."""
    found = Q(key=term)
    if (number := as_id(term)) is not None:
        found |= Q(pk=number)
    return list(Job.objects.filter(found).values_list("pk", flat=True)[:2])


def _tasks_found(term: str) -> list[int]:
    # First, as they are few: jobs can then be found through their indexes.
    tasks = Task.objects.filter(identifier__startswith=term)
    return list(tasks.values_list("pk", flat=True)[:NAMES])
