"""Whether the owner of a lock lives, judged by the database's clock, and why one thinks so."""

from __future__ import annotations

from django.db.models import Case, CharField, F, OuterRef, Subquery, Value, When
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce, Now
from django.utils.translation import gettext_lazy as _

from django_graphile_worker.models import Worker
from django_graphile_worker.statements.queues import PAUSED

OF_A_WORKER = Case(
    When(dead_at__isnull=False, then=Value("dead")),
    When(last_beat_at__lt=Now() - F("stale_after"), then=Value("stale")),
    When(stopping_at__isnull=False, then=Value("stopping")),
    default=Value("alive"),
    output_field=CharField(),
)
"""The verdict on a row of `Worker`."""

LABELS = {
    "alive": _("alive"),
    "stopping": _("alive, stopping"),
    "stale": _("stale"),
    "dead": _("dead"),
    "gone": _("dead, forgotten"),
    "foreign": _("foreign"),
    "paused": _("paused"),
}

REASONS = {
    "alive": _("It has given a sign of life within the time that it is allowed."),
    "stopping": _("It gives signs of life, was asked to stop, and is ending what it runs."),
    "stale": _(
        "It has been silent for longer than it is allowed. Another worker of this package will "
        "declare it dead and free what it holds."
    ),
    "dead": _("It was declared dead. The next sweep of any worker frees what it holds."),
    "gone": _(
        "It has the name of a worker of this package, but no such worker is known any more. The "
        "next sweep of any worker frees what it holds."
    ),
    "foreign": _(
        "It is no worker of this package and gives no signs of life, so nobody can tell from here "
        "whether it lives. What it has held for four hours is freed."
    ),
    "paused": _("Somebody has paused this queue: no worker takes a job of it until it is resumed."),
}

MAY_LIVE = {"alive", "stopping", "foreign"}
"""Unlocking one of these needs a second confirmation."""


def of_owner(locked_by: str = "locked_by") -> Combinable:
    """Return the verdict on whoever a row is locked by, as an expression without another query."""
    known = Worker.objects.filter(pk=OuterRef(locked_by)).annotate(verdict=OF_A_WORKER)
    unknown = Case(
        When(**{locked_by: PAUSED}, then=Value("paused")),
        When(**{f"{locked_by}__startswith": "django:"}, then=Value("gone")),
        default=Value("foreign"),
        output_field=CharField(),
    )
    return Coalesce(Subquery(known.values("verdict")), unknown, output_field=CharField())


def judge(alias: str, worker_id: str) -> str:
    """Return the verdict on one owner, as it is now."""
    worker = Worker.objects.using(alias).filter(pk=worker_id).annotate(verdict=OF_A_WORKER)
    found: str | None = worker.values_list("verdict", flat=True).first()
    return found or ("gone" if worker_id.startswith("django:") else "foreign")
