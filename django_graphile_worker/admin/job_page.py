"""The page of one job: what it is, why it does not run, and what became of its attempts."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.apps import apps
from django.contrib.admin.utils import quote
from django.db.models import TextField
from django.db.models.functions import Cast, Left
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from django_graphile_worker import redaction
from django_graphile_worker.admin import why
from django_graphile_worker.admin.actions import has_act_permission, has_payload_permission
from django_graphile_worker.admin.job_actions import VERBS
from django_graphile_worker.models import Job, JobError, KeyConflict, Worker

# How much of a payload or an error is shown, in characters.
SHOWN = 20_000
# Of the history: so many attempts, and so much of each error.
ATTEMPTS = 50
ERROR_SHOWN = 4_000
CONFLICTS = 20

FIELDSETS: tuple[tuple[Any, dict[str, Any]], ...] = (
    (None, {"fields": (("id", "state"), ("task_identifier", "queue_name", "key"))}),
    (
        _("Timing"),
        {"fields": (("run_at", "created_at", "updated_at"), ("locked_at", "locked_by"))},
    ),
    (_("Attempts"), {"fields": (("attempts", "max_attempts"), "last_error_text")}),
    (_("Other"), {"fields": (("priority", "revision", "flags"),)}),
)
PAYLOAD_FIELDSET = (_("Payload"), {"fields": ("payload_text",)})


class JobPageMixin:
    """How one job is shown; for a `ModelAdmin` of jobs, or of some of them."""

    change_form_template: Any = "admin/graphile_worker/job.html"
    admin_site: Any
    # Whether the page offers the actions.
    acts = False

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        may_see = has_payload_permission(request)
        return (*FIELDSETS, PAYLOAD_FIELDSET) if may_see else FIELDSETS

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        job: Any = kwargs.get("obj")
        if job is not None:
            acts = self.acts and has_act_permission(request)
            context |= {
                "answers": [
                    (answer.text, self._links_of(request, answer)) for answer in why.explain(job)
                ],
                "related": self._related(request, job),
                "verbs": list(VERBS.values()) if acts else [],
                "is_held": job.locked_at is not None,
                **self._attempts(request, job),
                **self._conflicts(request, job),
            }
        found: HttpResponse = super().render_change_form(  # type: ignore[misc]
            request, context, *args, **kwargs
        )
        return found

    def _page(self, request: HttpRequest, model: str, page: str, *args: Any) -> str | None:
        """Return the address of a page of another model, if the user may see that."""
        if not request.user.has_perm(f"graphile_worker.view_{model}"):
            return None
        if not self.admin_site.is_registered(apps.get_model("graphile_worker", model)):
            return None
        name = f"admin:graphile_worker_{model}_{page}"
        return reverse(name, args=args, current_app=self.admin_site.name)

    def _links_of(self, request: HttpRequest, answer: why.Answer) -> list[tuple[Any, str]]:
        found: list[tuple[Any, str]] = []
        if answer.job is not None and (
            url := self._page(request, "job", "change", quote(answer.job))
        ):
            found.append((_("Job %(job)d") % {"job": answer.job}, url))
        if answer.worker and (url := self._page(request, "lockedjob", "changelist")):
            query = urlencode({"q": answer.worker})
            found.append((_("What this worker holds"), f"{url}?{query}"))
        return found

    def _related(self, request: HttpRequest, job: Any) -> list[tuple[Any, str]]:
        """Return labels and addresses of what the job belongs to."""
        found = [
            (_("Its task"), self._page(request, "task", "change", quote(job.task_id))),
        ]
        if job.job_queue_id is not None:
            url = self._page(request, "jobqueue", "change", quote(job.job_queue_id))
            found.append((_("Its named queue"), url))
        if job.locked_by:
            known = Worker.objects.using(job._state.db).filter(pk=job.locked_by).exists()
            if known:
                url = self._page(request, "worker", "change", quote(job.locked_by))
                found.append((_("Its worker"), url))
            found.append((_("Its lock"), self._page(request, "lockedjob", "change", job.pk)))
        return [(label, url) for label, url in found if url]

    def _attempts(self, request: HttpRequest, job: Any) -> dict[str, Any]:
        url = self._page(request, "joberror", "changelist")
        if url is None:
            return {}
        errors = JobError.objects.using(job._state.db).filter(job_id=job.pk).order_by("-pk")
        text = Left("error", ERROR_SHOWN + 1, output_field=TextField())
        return {
            "attempts": list(errors.annotate(text=text).defer("error")[: ATTEMPTS + 1]),
            "attempts_shown": ATTEMPTS,
            "error_shown": ERROR_SHOWN,
            "attempts_url": f"{url}?{urlencode({'q': job.pk})}",
        }

    def _conflicts(self, request: HttpRequest, job: Any) -> dict[str, Any]:
        url = self._page(request, "keyconflict", "key")
        if url is None:
            return {}
        conflicts = KeyConflict.objects.using(job._state.db)
        # In two looks: the record has an index by the superseded job only, and an `or` uses none.
        found = [
            *conflicts.filter(superseded_job_id=job.pk).order_by("-pk")[:CONFLICTS],
            *conflicts.filter(successor_job_id=job.pk).order_by("-pk")[:CONFLICTS],
        ]
        others = {
            one.pk: one.superseded_job_id
            if one.successor_job_id == job.pk
            else one.successor_job_id
            for one in found
        }
        jobs = Job.objects.using(job._state.db).filter(pk__in=list(others.values()))
        there = set(jobs.values_list("pk", flat=True))
        return {
            "conflicts": [
                {
                    "row": one,
                    "is_successor": one.successor_job_id == job.pk,
                    "key_url": f"{url}?{urlencode({'key': one.key})}",
                    "other": others[one.pk],
                    "url": self._page(request, "job", "change", quote(others[one.pk]))
                    if others[one.pk] in there
                    else None,
                }
                for one in found
            ]
        }


def payload_block(job: Any) -> str:
    """Return a job's payload as people may read it, or why they may not."""
    jobs = Job.objects.using(job._state.db).filter(pk=job.pk)
    longest = SHOWN if redaction.hides_nothing() else redaction.LONGEST
    # As text and cut by the database: it may be large, and more than Python can decode. It is a
    # query of its own, so the job may be gone by now.
    text = Left(Cast("payload", TextField()), longest + 1)
    found: str | None = jobs.annotate(text=text).values_list("text", flat=True).first()
    if found is None or redaction.hides_nothing():
        return block(found)
    try:
        return block(redaction.readable(found, job.task_identifier or ""))
    except redaction.Withheld as withheld:
        return format_html("<em>{}</em>", withheld.reason)


def block(text: str | None) -> str:
    """Return a long text as a block, cut where a page could no longer show it."""
    if text is None:
        return "-"
    cut = "…" if len(text) > SHOWN else ""
    return format_html('<pre class="graphile-worker-text">{}{}</pre>', text[:SHOWN], cut)
