"""What all actions on jobs share: who may, what became of each job, and the record of it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Mapping
from typing import Any

from django.contrib import messages
from django.contrib.admin.models import LogEntry
from django.core.exceptions import PermissionDenied
from django.db import models
from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.translation import ngettext

from django_graphile_worker import transactions
from django_graphile_worker.admin.base import as_id
from django_graphile_worker.conf import get_config
from django_graphile_worker.jobs import FreeJob
from django_graphile_worker.models import Job
from django_graphile_worker.statements.jobs import lock_free_jobs

ACT_PERMISSION = "graphile_worker.act_on_job"
PAYLOAD_PERMISSION = "graphile_worker.view_payload"
UNLOCK_PERMISSION = "graphile_worker.unlock_worker"

# So many jobs one action changes at most: each is locked until all are done.
MOST = 1_000
# So many ids a message names.
NAMED = 20


class Outcome(enum.StrEnum):
    """What became of one of the jobs that somebody has chosen."""

    DONE = "done"
    UNCHANGED = "unchanged"
    """It was so already."""
    LOCKED = "locked"
    """A worker holds it, so it was left alone."""
    GONE = "gone"
    """It was not there any more."""
    REFUSED = "refused"
    """The action has no meaning for it."""


Outcomes = dict[int, Outcome]
Act = Callable[[list[FreeJob]], Mapping[int, Outcome]]


def has_act_permission(request: HttpRequest) -> bool:
    return bool(request.user.has_perm(ACT_PERMISSION))


def has_payload_permission(request: HttpRequest) -> bool:
    return bool(request.user.has_perm(PAYLOAD_PERMISSION))


def has_unlock_permission(request: HttpRequest) -> bool:
    return bool(request.user.has_perm(UNLOCK_PERMISSION))


def demand(model_admin: Any, request: HttpRequest, permission: str) -> None:
    """Raise `PermissionDenied` unless the user has the permission, and may see the model."""
    if not (request.user.has_perm(permission) and model_admin.has_view_permission(request)):
        raise PermissionDenied


def act_on_jobs(
    request: HttpRequest, job_ids: Collection[int], act: Act, *, flag: int, said: str
) -> Outcomes:
    """Lock those of the jobs that are free, let `act` change them, and log what it has done.

    `act` gets the free ones and returns what became of each; it runs on the alias that the admin
    reads, in one transaction with the looks before and after, and again after a deadlock. Each job
    that was done gets a `LogEntry` with `flag` and `said`, in the same transaction where the log is
    in the same database: nothing is done without being written down.
    """
    alias = transactions.alias(None)
    ids = list(dict.fromkeys(job_ids))[:MOST]

    def work(cursor: Any) -> Outcomes:
        free = lock_free_jobs(ids, get_config().schema).run(cursor)
        outcomes = dict(act(free)) if free else {}
        rest = [job_id for job_id in ids if job_id not in outcomes]
        there = set(Job.objects.using(alias).filter(pk__in=rest).values_list("pk", flat=True))
        # Whoever is there and was not free was held at that moment, whatever came since.
        outcomes |= {pk: Outcome.LOCKED if pk in there else Outcome.GONE for pk in rest}
        done = [pk for pk in ids if outcomes[pk] is Outcome.DONE]
        log(request, [Job(pk=pk) for pk in done], flag, said)
        return {pk: outcomes[pk] for pk in ids}

    return transactions.run(alias, work, atomic=True)


def log(request: HttpRequest, rows: Collection[models.Model], flag: int, said: str) -> None:
    """Write one `LogEntry` for each row."""
    if rows:
        user_id: Any = request.user.pk
        LogEntry.objects.log_actions(user_id, rows, flag, said)


def tell(request: HttpRequest, outcomes: Outcomes, verb: str | Promise) -> None:
    """Say what became of the jobs: one message for each outcome, and which jobs they were."""
    by_outcome: dict[Outcome, list[int]] = {}
    for job_id, outcome in outcomes.items():
        by_outcome.setdefault(outcome, []).append(job_id)
    for outcome, level in LEVELS.items():
        if found := by_outcome.get(outcome):
            said = _sentence(outcome, len(found)) % {"count": len(found), "verb": verb}
            messages.add_message(request, level, f"{said} {_named(found)}")


LEVELS = {
    Outcome.DONE: messages.SUCCESS,
    Outcome.UNCHANGED: messages.INFO,
    Outcome.REFUSED: messages.WARNING,
    Outcome.LOCKED: messages.WARNING,
    Outcome.GONE: messages.WARNING,
}


def _sentence(outcome: Outcome, count: int) -> str:
    if outcome is Outcome.DONE:
        return ngettext("%(verb)s: %(count)d job.", "%(verb)s: %(count)d jobs.", count)
    if outcome is Outcome.UNCHANGED:
        return ngettext(
            "%(count)d job was so already and was left as it is.",
            "%(count)d jobs were so already and were left as they are.",
            count,
        )
    if outcome is Outcome.LOCKED:
        return ngettext(
            "%(count)d job was left alone, since a worker holds it.",
            "%(count)d jobs were left alone, since workers hold them.",
            count,
        )
    if outcome is Outcome.GONE:
        return ngettext(
            "%(count)d job is gone: it has ended, or somebody has removed it.",
            "%(count)d jobs are gone: they have ended, or somebody has removed them.",
            count,
        )
    return ngettext(
        "%(count)d job has no key and was left alone.",
        "%(count)d jobs have no key and were left alone.",
        count,
    )


def _named(job_ids: list[int]) -> str:
    named = ", ".join(map(str, job_ids[:NAMED]))
    return f"({named}, …)" if len(job_ids) > NAMED else f"({named})"


def read_ids(sent: str) -> list[int]:
    """Return the ids of a list with commas, as `ids_text` has made it; what is no id is left out.

    One field for all of them: a form may have a thousand fields (`DATA_UPLOAD_MAX_NUMBER_FIELDS`).
    """
    found = (as_id(part.strip()) for part in sent.split(",", MOST)[:MOST])
    return list(dict.fromkeys(job_id for job_id in found if job_id is not None))


def ids_text(job_ids: Collection[int]) -> str:
    return ",".join(map(str, job_ids))
