"""Which jobs a list shows, so that no list reads more than a bounded part of the table.

The indexes are those that the workers need, and no others: each one more would slow down every
`add_job`. So a state is listed in the order of the index that leads to it, a task or a named queue
is looked for where an index leads to it, and anything else among the newest `LOOK` jobs only. Of
2,000,000 jobs a filter by a rare task took 950 ms before, for the list and for its count each.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, F, Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from django_graphile_worker.admin.base import CappedPaginator, IsAmong
from django_graphile_worker.models import Job, JobQuerySet

# Looked through where no index leads: the newest.
LOOK = 50_000
# Looked through to tell the scheduled from the retrying, and for tasks among the failed.
SAMPLE = 20_000

STATES = {
    "ready": (_("ready"), Q(is_available=True, run_at__lte=Now())),
    "scheduled": (_("scheduled"), Q(is_available=True, run_at__gt=Now(), attempts=0)),
    "retrying": (_("retrying"), Q(is_available=True, run_at__gt=Now(), attempts__gt=0)),
    "running": (_("running"), Q(is_available=False, locked_at__isnull=False)),
    # That no attempt is left follows: a job that is free and not available has none.
    "failed": (_("failed"), Q(is_available=False, locked_at__isnull=True)),
}
"""Every job is in exactly one of these, by the database's clock."""

WAITING = ("ready", "scheduled", "retrying")

ORDERS: dict[str, tuple[str, ...]] = {
    # As workers take them.
    "ready": ("priority", "run_at", "-id"),
    "scheduled": ("priority", "run_at", "-id"),
    "retrying": ("priority", "run_at", "-id"),
    # The longest first.
    "running": ("locked_at", "-id"),
}
NEWEST = ("-id",)


@dataclass(frozen=True)
class Wanted:
    """What somebody wants to see; `None` is anything. No task and no queue has no jobs."""

    state: str | None = None
    tasks: Collection[int] | None = None
    queues: Collection[int] | None = None
    ids: Collection[int] = ()
    """Jobs found by the search in another way than by their tasks."""

    @property
    def order(self) -> tuple[str, ...]:
        return ORDERS.get(self.state or "", NEWEST)


def narrow(jobs: JobQuerySet, wanted: Wanted, *, searched: Collection[int] | None) -> JobQuerySet:
    """Return those of `jobs` that are wanted; `searched` are tasks of which one is enough."""
    condition = STATES[wanted.state][1] if wanted.state in STATES else Q()
    by_name = wanted.tasks is not None or wanted.queues is not None or searched is not None
    if not by_name:
        return _of_state(jobs, wanted.state).filter(condition)
    if wanted.tasks is not None:
        condition &= Q(task_id__in=list(wanted.tasks))
    if wanted.queues is not None:
        condition &= Q(job_queue_id__in=list(wanted.queues))
    rows: Any = Job.objects.using(jobs.db).order_by().filter(condition)
    cap = CappedPaginator.cap + 1
    parts = []
    if searched is None or searched:
        among = rows if searched is None else rows.filter(task_id__in=list(searched))
        parts += [part.values("pk")[:cap] for part in _by_index(among, wanted)]
        parts.append(_newest(among))
    if wanted.ids:
        parts.append(rows.filter(pk__in=list(wanted.ids)).values("pk"))
    return _among(jobs, parts)


def _among(jobs: JobQuerySet, parts: list[Any]) -> JobQuerySet:
    """Return those of `jobs` that any of some queries finds, the newest if there are too many.

    By a union and not by a condition with `or`, for which each job would be looked at; and once,
    since a list counts and reads, and to find them takes longest.
    """
    if not parts:
        return jobs.none()
    first, *others = parts
    union = first.union(*others) if others else first
    found = sorted(union.values_list("pk", flat=True), reverse=True)
    return jobs.filter(IsAmong(F("pk"), found[: CappedPaginator.cap + 1]))


def _newest(rows: Any) -> Any:
    floor = oldest_looked_at(rows.db)
    newest = rows if floor is None else rows.filter(pk__gt=floor)
    return newest.order_by("-pk").values("pk")[: CappedPaginator.cap + 1]


def _by_index(rows: Any, wanted: Wanted) -> list[Any]:
    """Return those to which an index leads: they are found however old they are."""
    found = []
    if wanted.state in (None, *WAITING):
        # In named queues no index leads to a task.
        without_queue = wanted.queues is None
        waiting = rows.filter(is_available=True, job_queue_id__isnull=without_queue)
        if len(wanted.tasks or wanted.queues or ()) == 1:
            # In the index's order, or the whole table may be read for a state that is rare in it.
            waiting = waiting.order_by("priority", "run_at")
        found.append(waiting)
    if wanted.state in (None, "running"):
        found.append(rows.filter(STATES["running"][1]))
    if wanted.state in (None, "failed"):
        # The index that has them has the running, too, but neither tasks nor an order.
        some = Job.objects.using(rows.db).order_by().filter(STATES["failed"][1])
        found.append(rows.filter(pk__in=some.values("pk")[:SAMPLE]))
    return found


def _of_state(jobs: JobQuerySet, state: str | None) -> JobQuerySet:
    rows: Any = Job.objects.using(jobs.db).order_by()
    cap = CappedPaginator.cap + 1
    if state in ("scheduled", "retrying"):
        future = rows.filter(_first_in_line(jobs.db), STATES[state][1])
        return _among(jobs, [future.order_by("priority", "run_at").values("pk")[:cap]])
    if state == "failed":
        failed = rows.filter(STATES["failed"][1])
        return _among(jobs, [failed.values("pk")[:cap], _newest(failed)])
    return jobs


def oldest_looked_at(alias: str) -> int | None:
    """Return the id above which the newest `LOOK` jobs are; `None` where there are no more."""
    newest = Job.objects.using(alias).order_by("-pk").values_list("pk", flat=True)
    return newest[LOOK : LOOK + 1].first()


def _first_in_line(alias: str) -> Q:
    """Return a condition for the `SAMPLE` jobs of the future that workers will take first."""
    future = Job.objects.using(alias).filter(is_available=True, run_at__gt=Now())
    order = future.order_by("priority", "run_at").values_list("priority", "run_at")
    last = order[SAMPLE : SAMPLE + 1].first()
    if last is None:
        return Q()
    priority, run_at = last
    if run_at.year >= 9999:  # cut to Python's years: whatever is later cannot be told apart
        return Q(priority__lte=priority)
    return Q(priority__lte=priority) & (Q(priority__lt=priority) | Q(run_at__lte=run_at))


def counts(alias: str) -> dict[str | None, str]:
    """Return how many jobs are in each state, and in all (`None`), as a text: "10,000+" at most."""
    rows: Any = Job.objects.using(alias).order_by()
    found: dict[str | None, tuple[int, bool]] = {}
    for state in (None, "ready", "running", "failed"):
        some = rows.filter(STATES[state][1]) if state else rows
        if state == "running":
            # Without statistics the whole table may be read for the few that run.
            some = some.order_by("locked_at")
        found[state] = some.values("pk")[: CappedPaginator.cap + 1].count(), False
    future = rows.filter(is_available=True, run_at__gt=Now()).order_by("priority", "run_at")
    sample = future.values("attempts")[: SAMPLE + 1].aggregate(
        scheduled=Count("pk", filter=Q(attempts=0)), retrying=Count("pk", filter=Q(attempts__gt=0))
    )
    are_more = sum(sample.values()) > SAMPLE
    found |= {state: (count, are_more) for state, count in sample.items()}
    return {state: count_text(*count) for state, count in found.items()}


def count_text(count: int, are_more: bool = False) -> str:
    cap = CappedPaginator.cap
    return f"{min(count, cap):,}+" if count > cap or are_more else f"{count:,}"
