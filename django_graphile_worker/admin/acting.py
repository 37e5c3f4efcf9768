"""Acting on jobs from a list or from a job's page: what is sent, the page that asks, the answer."""

from __future__ import annotations

from typing import Any

from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.options import IncorrectLookupParameters
from django.db.models.functions import Now
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseNotAllowed,
    HttpResponseRedirect,
    QueryDict,
)
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils import translation

from django_graphile_worker import transactions
from django_graphile_worker.admin.actions import (
    ACT_PERMISSION,
    MOST,
    act_on_jobs,
    demand,
    has_act_permission,
    ids_text,
    read_ids,
    tell,
)
from django_graphile_worker.admin.job_actions import VERBS, Verb, list_action, verb_named
from django_graphile_worker.admin.job_lists import STATES
from django_graphile_worker.models import Job

# Of the jobs that were chosen, on the page that asks.
SHOWN = 50


class ActingMixin:
    """The actions of `VERBS`, for a `ModelAdmin` of jobs. Whoever may not act sees none of them."""

    actions: Any = tuple(list_action(verb) for verb in VERBS.values())
    model: Any
    admin_site: Any
    opts: Any

    def has_act_permission(self, request: HttpRequest) -> bool:
        return has_act_permission(request)

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(self.act_view)
        name = f"{self.opts.app_label}_{self.opts.model_name}_act"
        urls: list[Any] = super().get_urls()  # type: ignore[misc]
        return [path("act/<str:verb>/", view, name=name), *urls]

    def act_on_chosen(self, request: HttpRequest, queryset: Any, verb: Verb) -> HttpResponse:
        """Answer an action of the list. A job that is in it no more is among the chosen still."""
        demand(self, request, ACT_PERMISSION)
        if request.POST.get("select_across") == "1":
            ids = list(queryset.values_list("pk", flat=True)[:MOST])
        else:
            ids = read_ids(",".join(request.POST.getlist(ACTION_CHECKBOX_NAME)))
        back = request.GET.urlencode()
        if verb.asks:
            return self._ask(request, verb, ids, back)
        return self._do(request, verb, ids, {}, back)

    def act_view(self, request: HttpRequest, verb: str) -> HttpResponse:
        """Ask, or act, for `jobs` (ids with commas), or for all that the list's address matches."""
        demand(self, request, ACT_PERMISSION)
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        wanted = verb_named(verb)
        back = request.POST.get("back", "")
        if "matching" in request.POST:
            return self._ask_for_matching(request, wanted)
        ids = read_ids(request.POST.get("jobs", ""))
        if request.POST.get("sure") != "yes" and wanted.asks:
            return self._ask(request, wanted, ids, back)
        values: dict[str, Any] = {}
        if wanted.form is not None:
            form = wanted.form(request.POST)
            if not form.is_valid():
                return self._ask(request, wanted, ids, back, form)
            values = form.cleaned_data
        return self._do(request, wanted, ids, values, back)

    def _ask_for_matching(self, request: HttpRequest, verb: Verb) -> HttpResponse:
        back = request.GET.urlencode()
        try:
            found = self.get_changelist_instance(request).queryset  # type: ignore[attr-defined]
        except IncorrectLookupParameters:
            return HttpResponseRedirect(self._list_url(""))
        # Those that wait already, and those that run, have nothing to gain.
        free = found.filter(locked_at__isnull=True).exclude(is_available=True, run_at__lte=Now())
        ids = list(free.values_list("pk", flat=True)[: MOST + 1])
        return self._ask(request, verb, ids[:MOST], back, are_more=len(ids) > MOST)

    def _ask(
        self,
        request: HttpRequest,
        verb: Verb,
        ids: list[int],
        back: str,
        form: Any = None,
        *,
        are_more: bool = False,
    ) -> HttpResponse:
        jobs = self.get_queryset(request).filter(pk__in=ids)  # type: ignore[attr-defined]
        there = dict(jobs.values_list("pk", "locked_at"))
        context = {
            **self.admin_site.each_context(request),
            "title": verb.label,
            "opts": self.opts,
            "verb": verb,
            "count": len(ids),
            "held": sum(locked_at is not None for locked_at in there.values()),
            "gone": len(ids) - len(there),
            "jobs": self._shown(jobs.order_by("-pk")[:SHOWN]),
            "is_cut": len(there) > SHOWN,
            "are_more": are_more,
            "most": MOST,
            "ids": ids_text(ids),
            "form": form if form is not None else verb.form and verb.form(),
            "url": self._url("act", verb.name),
            "back": back,
            "back_url": self._back_url(ids, back),
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "admin/graphile_worker/job_confirm.html", context)

    def _shown(self, jobs: Any) -> list[Any]:
        found = list(jobs)
        for job in found:
            job.state_label = STATES[job.state][0]
        return found

    def _do(
        self, request: HttpRequest, verb: Verb, ids: list[int], values: dict[str, Any], back: str
    ) -> HttpResponse:
        alias = transactions.alias(None)
        with translation.override("en"):
            shown = ", ".join(f"{name}: {value}" for name, value in values.items() if value != "")
            said = f"{verb.label}{f' ({shown})' if shown else ''}."
        outcomes = act_on_jobs(
            request, ids, lambda free: verb.do(free, values, alias), flag=verb.flag, said=said
        )
        tell(request, outcomes, verb.label)
        return HttpResponseRedirect(self._back_url(ids, back))

    def _url(self, page: str, *args: Any) -> str:
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_{page}"
        return reverse(name, args=args, current_app=self.admin_site.name)

    def _list_url(self, query: str) -> str:
        # Taken apart and put together: whatever was sent, it stays a query of this list.
        found = QueryDict(query).urlencode()
        url = self._url("changelist")
        return f"{url}?{found}" if found else url

    def _back_url(self, ids: list[int], back: str) -> str:
        """Return the page that somebody came from: the job's while it is there, or the list."""
        alias = transactions.alias(None)
        if back == "job" and Job.objects.using(alias).filter(pk__in=ids[:1]).exists():
            return self._url("change", ids[0])
        return self._list_url("" if back == "job" else back)
