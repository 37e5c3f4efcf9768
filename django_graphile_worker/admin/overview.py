"""The overview: how many jobs are in each state, what was run lately, and what has failed."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Model, TextField
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.translation import gettext_lazy as _

from django_graphile_worker import transactions
from django_graphile_worker.admin import charts, job_lists, periods, verdicts
from django_graphile_worker.admin.base import ReadOnlyAdmin
from django_graphile_worker.admin.periods import DAY, HOUR
from django_graphile_worker.conf import get_config
from django_graphile_worker.models import Job, JobError, Overview, Worker
from django_graphile_worker.statements.statistics import (
    Totals,
    get_busiest_tasks,
    get_oldest_due,
    get_statistics,
)

# Of tasks and of failures; and of an error, in characters.
SHOWN = 10
OF_AN_ERROR = 200

# Seconds that somebody may choose to pass between two refreshes.
INTERVALS = (2, 5, 15, 60)


class Tile(NamedTuple):
    label: Any
    value: Any
    url: str | None = None
    note: str = ""


@admin.register(Overview)
class OverviewAdmin(ReadOnlyAdmin):
    """One page in place of a list, and the part of it that a script fetches again and again."""

    template = "admin/graphile_worker/overview.html"
    fragment_template = "admin/graphile_worker/overview_fragment.html"

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(self.fragment_view)
        name = f"{self.opts.app_label}_{self.opts.model_name}_fragment"
        return [path("fragment/", view, name=name), *super().get_urls()]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        self._demand(request)
        context = {
            **self.admin_site.each_context(request),
            "title": _("Overview"),
            "opts": self.opts,
            "fragment_url": self._reverse(Overview, "fragment"),
            "intervals": INTERVALS,
            **self.look(request),
            **(extra_context or {}),
        }
        return TemplateResponse(request, self.template, context)

    def fragment_view(self, request: HttpRequest) -> HttpResponse:
        """Show what changes, and nothing around it."""
        self._demand(request)
        return TemplateResponse(request, self.fragment_template, self.look(request))

    def look(self, request: HttpRequest) -> dict[str, Any]:
        """Read all that is shown. No query takes longer as the queue grows."""
        schema = get_config().schema
        line = self._ask(get_oldest_due(schema=schema))
        busiest = self._ask(get_busiest_tasks(schema=schema, seconds=HOUR.seconds, most=SHOWN))
        workers = _count_workers()
        alive = workers.get("alive", 0) + workers.get("stopping", 0)
        described = []
        for period in (HOUR, DAY):
            asked = get_statistics(schema=schema, seconds=period.seconds, step=period.step)
            described.append(periods.describe(period, self._ask(asked), line.now))
        return {
            "tiles": self._tiles(request, line.now, line.oldest_due, alive, workers),
            "nobody_works": line.oldest_due is not None and not alive,
            "periods": described,
            "busiest": [self._task(request, task) for task in busiest],
            "failures": self._failures(request),
            "failures_url": self._url(request, JobError),
            "looked_at": periods.clock(line.now, "H:i:s"),
        }

    def _tiles(
        self,
        request: HttpRequest,
        now: float,
        oldest_due: float | None,
        alive: int,
        workers: dict[str, int],
    ) -> list[Tile]:
        counts = job_lists.counts(transactions.alias(None))
        jobs = self._url(request, Job)
        tiles = [
            Tile(label, counts[state], jobs and f"{jobs}?{urlencode({'state': state})}")
            for state, (label, _condition) in job_lists.STATES.items()
        ]
        # Since ever, where another language parks a job in the past beyond all years.
        age = "-" if oldest_due is None else charts.duration(max(now - oldest_due, 0))
        tiles.append(Tile(_("oldest due job has waited"), age))
        lost = [
            f"{workers[verdict]} {verdicts.LABELS[verdict]}"
            for verdict in ("stale", "dead")
            if verdict in workers
        ]
        url = self._url(request, Worker)
        tiles.append(Tile(_("workers alive"), charts.count(alive), url, ", ".join(lost)))
        return tiles

    def _task(self, request: HttpRequest, task: Totals) -> periods.Row:
        url = self._url(request, Job)
        return periods.row(task.task, task, url and f"{url}?{urlencode({'task': task.task})}")

    def _failures(self, request: HttpRequest) -> list[dict[str, Any]]:
        """Return the newest; nothing for who may not view them, since errors tell of payloads."""
        if self._url(request, JobError) is None:
            return []
        rows: Any = JobError.objects.order_by("-id")
        beginning = Left("error", OF_AN_ERROR + 1, output_field=TextField())
        found = rows.annotate(text=beginning).defer("error")[:SHOWN]
        jobs = self._url(request, Job) is not None
        return [
            {
                "row": row,
                "text": _first_line(row.text),
                "url": self._reverse(JobError, "change", row.pk),
                "job_url": self._reverse(Job, "change", row.job_id) if jobs else None,
            }
            for row in found
        ]

    def _url(self, request: HttpRequest, model: type[Model]) -> str | None:
        """Return the address of a model's list, for who may view it and where the site has it."""
        site = self.admin_site
        if not site.is_registered(model):
            return None
        if not site.get_model_admin(model).has_view_permission(request):
            return None
        return self._reverse(model, "changelist")

    def _reverse(self, model: type[Model], page: str, *args: Any) -> str:
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}"
        return reverse(name, args=args, current_app=self.admin_site.name)

    def _demand(self, request: HttpRequest) -> None:
        if not self.has_view_permission(request):
            raise PermissionDenied
        request.current_app = self.admin_site.name

    def _ask(self, statement: Any) -> Any:
        return transactions.run(None, statement.run)


def _count_workers() -> dict[str, int]:
    workers: Any = Worker.objects.annotate(verdict=verdicts.OF_A_WORKER).order_by()
    return dict(workers.values_list("verdict").annotate(Count("pk")))


def _first_line(error: str) -> str:
    """Return what went wrong, without the way there, which the failure's own page has."""
    line = error.lstrip().partition("\n")[0]
    return f"{line[:OF_AN_ERROR]}…" if len(line) > OF_AN_ERROR else line
