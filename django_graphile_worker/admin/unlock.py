"""Freeing all that one worker holds: the page that asks, and what it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_graphile_worker import client
from django_graphile_worker.admin import verdicts
from django_graphile_worker.models import Job, JobQueue, Worker
from django_graphile_worker.statements.queues import PAUSED
from django_graphile_worker.transactions import alias as first_alias

UNLOCK_PERMISSION = "graphile_worker.unlock_worker"

# A name of ours has up to 100 characters; Node's are shorter.
LONGEST_NAME = 1000
# Looked at for what will happen. No worker holds as many.
MOST = 10_000
SHOWN = 50


@dataclass(frozen=True)
class Held:
    """What a worker holds: jobs as `(id, attempts, max_attempts)`, and ids of named queues."""

    jobs: list[tuple[int, int, int]]
    queues: list[int]

    @property
    def again(self) -> int:
        """How many of the jobs have an attempt left."""
        return sum(attempts < most for _id, attempts, most in self.jobs)

    @property
    def failed(self) -> int:
        return len(self.jobs) - self.again


def held_by(alias: str, worker_id: str) -> Held:
    jobs = Job.objects.using(alias).locked().filter(locked_by=worker_id).order_by("id")
    queues = JobQueue.objects.using(alias).filter(is_available=False, locked_by=worker_id)
    return Held(
        list(jobs.values_list("id", "attempts", "max_attempts")[:MOST]),
        list(queues.order_by("id").values_list("id", flat=True)[:MOST]),
    )


def view(model_admin: Any, request: HttpRequest) -> HttpResponse:
    """Ask whether to unlock the worker named in `worker`, or do it.

    It names what will happen, and asks a second time for an owner that may live. The verdict is
    made anew before anything is done: who was dead by the page may have come back.
    """
    if not (request.user.has_perm(UNLOCK_PERMISSION) and model_admin.has_view_permission(request)):
        raise PermissionDenied
    sent = request.POST if request.method == "POST" else request.GET
    worker_id = sent.get("worker", "")
    meta = model_admin.model._meta
    site = model_admin.admin_site.name
    back = reverse(f"admin:{meta.app_label}_{meta.model_name}_changelist", current_app=site)
    # A paused queue is resumed, where it is seen that nothing of it runs.
    if worker_id in ("", PAUSED) or len(worker_id) > LONGEST_NAME or "\0" in worker_id:
        messages.error(request, _("There is no such worker."))
        return HttpResponseRedirect(back)
    alias = first_alias(None)
    verdict = verdicts.judge(alias, worker_id)
    must_be_sure = verdict in verdicts.MAY_LIVE
    unsure = must_be_sure and sent.get("sure") != "yes"
    if request.method == "POST" and not unsure:
        _unlock(request, alias, worker_id)
        return HttpResponseRedirect(back)
    held = held_by(alias, worker_id)
    context = {
        **model_admin.admin_site.each_context(request),
        "title": _("Unlock a worker"),
        "opts": meta,
        "back": back,
        "worker_id": worker_id,
        "verdict": verdict,
        "label": verdicts.LABELS[verdict],
        "reason": verdicts.REASONS[verdict],
        "must_be_sure": must_be_sure,
        "refused": request.method == "POST",
        "held": held,
        "jobs": held.jobs[:SHOWN],
        "is_cut": len(held.jobs) > SHOWN,
    }
    request.current_app = site
    return TemplateResponse(request, "admin/graphile_worker/unlock.html", context)


def _unlock(request: HttpRequest, alias: str, worker_id: str) -> None:
    # With the log, so that nothing is freed that is not written down.
    with transaction.atomic(using=alias):
        before = held_by(alias, worker_id)
        client.force_unlock_workers([worker_id], using=alias)
        ids = [job_id for job_id, _attempts, _most in before.jobs]
        # Ours since the call, which has locked them: nobody can take one before we commit. The
        # others ended, or were freed by a sweep, between the look and the call.
        free = Job.objects.using(alias).filter(pk__in=ids, locked_at__isnull=True).count()
        queues = JobQueue.objects.using(alias).filter(pk__in=before.queues, is_available=True)
        said = f"{worker_id}: {_said(free, queues.count(), len(ids) - free)}."
        if before != Held([], []):
            # A foreign owner has no row; the entry is about its name all the same.
            user_id: Any = request.user.pk
            LogEntry.objects.log_actions(
                user_id, [Worker(worker_id=worker_id)], CHANGE, said, single_object=True
            )
    if before == Held([], []):
        said = _("%(worker)s holds nothing any more: nothing was unlocked.") % {"worker": worker_id}
        messages.warning(request, said)
    else:
        messages.success(request, said)


def _said(free: int, queues: int, ended: int) -> str:
    parts = [
        ngettext("%(count)d job unlocked", "%(count)d jobs unlocked", free) % {"count": free},
        ngettext("%(count)d named queue freed", "%(count)d named queues freed", queues)
        % {"count": queues},
    ]
    if ended:
        parts.append(
            ngettext(
                "%(count)d job had ended meanwhile", "%(count)d jobs had ended meanwhile", ended
            )
            % {"count": ended}
        )
    return ", ".join(parts)
