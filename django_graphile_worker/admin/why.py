"""Why a job is not running, in sentences: what the database knows, and nothing guessed."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import Q, Sum
from django.db.models.functions import Now
from django.utils import formats, timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_graphile_worker.admin import verdicts
from django_graphile_worker.models import Job, JobQueue, KeyConflict, Statistic, Worker
from django_graphile_worker.statements.queues import PAUSED

# So many jobs before this one are counted at most.
AHEAD = 1_000


class Answer(NamedTuple):
    """A sentence, and the job, worker or key that it leads to, if any."""

    text: str | Promise
    job: int | None = None
    worker: str | None = None


def explain(job: Any) -> list[Answer]:
    """Return why a job, annotated as the admin's lists do, is in its state; the reason first."""
    found = _EXPLAIN[job.state](job)
    if job.flags:
        flags = ", ".join(sorted(job.flags)) if isinstance(job.flags, dict) else str(job.flags)
        found.append(
            Answer(
                _("It has flags (%(flags)s): workers that were told to leave one alone pass by.")
                % {"flags": flags}
            )
        )
    return found


def when(moment: datetime) -> str:
    if timezone.is_aware(moment):
        moment = timezone.localtime(moment)
    return f"{formats.date_format(moment, 'DATE_FORMAT')}, {formats.date_format(moment, 'H:i:s')}"


def _scheduled(job: Any) -> list[Answer]:
    return [_lost(job) or _later(job, _("It is scheduled for %(moment)s."))]


def _retrying(job: Any) -> list[Answer]:
    text = _("Attempt %(attempt)d of %(most)d has failed; the next is due at %(moment)s.")
    return [_lost(job) or _later(job, text)]


def _later(job: Any, text: str) -> Answer:
    if job.run_at.year >= 9999:  # cut to Python's years: infinity among them
        return Answer(_("It is scheduled for a time that never comes, so it waits for ever."))
    values = {"attempt": job.attempts, "most": job.max_attempts, "moment": when(job.run_at)}
    return Answer(text % values)


def _failed(job: Any) -> list[Answer]:
    found = [
        Answer(
            _(
                "It has failed for good: no attempt of %(most)d is left. It runs again only if"
                " somebody lets it, by “Run now” or “Reschedule”."
            )
            % {"most": job.max_attempts}
        )
    ]
    return found + _superseded(job)


def _running(job: Any) -> list[Answer]:
    verdict = verdicts.judge(job._state.db, job.locked_by or "")
    found = [
        Answer(
            _("It is running: worker %(worker)s has held it since %(moment)s.")
            % {"worker": job.locked_by, "moment": when(job.locked_at)},
            worker=job.locked_by,
        )
    ]
    if verdict != "alive":
        found.append(Answer(verdicts.REASONS[verdict]))
    return found + _superseded(job)


def _superseded(job: Any) -> list[Answer]:
    conflicts = KeyConflict.objects.using(job._state.db).filter(superseded_job_id=job.pk)
    conflict = conflicts.order_by("-pk").first()
    if conflict is None or job.key == conflict.key:
        return []
    return [
        Answer(
            _("Job %(job)d has taken over its key “%(key)s”, so it gets no other attempt.")
            % {"job": conflict.successor_job_id, "key": conflict.key},
            job=conflict.successor_job_id,
        )
    ]


def _ready(job: Any) -> list[Answer]:
    if lost := _lost(job):
        return [lost]
    found = _held_queue(job)
    found += _workers(job)
    if not found:
        found = [_ahead(job)]
    return [*found, *_lately(job)]


def _lost(job: Any) -> Answer | None:
    if job.task_identifier is None:
        return Answer(
            _("The row of its task is gone, so no worker can run it. Add the job anew instead.")
        )
    if job.job_queue_id is not None and job.queue_name is None:
        return Answer(
            _("The row of its named queue is gone, so no worker runs it. Add the job anew instead.")
        )
    return None


def _held_queue(job: Any) -> list[Answer]:
    if job.job_queue_id is None:
        return []
    queues = JobQueue.objects.using(job._state.db).filter(pk=job.job_queue_id, is_available=False)
    queue = queues.first()
    if queue is None or queue.locked_at is None:
        return []
    if queue.locked_by == PAUSED:
        text = _(
            "Its named queue “%(queue)s” is paused: no worker takes a job of it until somebody"
            " resumes it."
        )
        return [Answer(text % {"queue": queue.queue_name})]
    values: dict[str, Any] = {
        "queue": queue.queue_name,
        "worker": queue.locked_by,
        "moment": when(queue.locked_at),
    }
    held = Job.objects.using(job._state.db).locked().filter(job_queue_id=queue.pk)
    holder = held.values_list("pk", flat=True).first()
    if holder is None:
        text = _(
            "Its named queue “%(queue)s” is held by worker %(worker)s since %(moment)s, though no"
            " job of it is."
        )
        return [Answer(text % values, worker=queue.locked_by)]
    text = _(
        "Its named queue “%(queue)s” is held by job %(job)d, on worker %(worker)s, since"
        " %(moment)s; a named queue runs one job at a time."
    )
    return [Answer(text % (values | {"job": holder}), job=holder, worker=queue.locked_by)]


def _workers(job: Any) -> list[Answer]:
    workers = Worker.objects.using(job._state.db).annotate(verdict=verdicts.OF_A_WORKER)
    alive = workers.filter(verdict__in=("alive", "stopping"))
    taking = alive.filter(verdict="alive").aggregate(places=Sum("concurrency"))["places"]
    if taking is None:
        return [
            Answer(
                _(
                    "No worker of this package is alive that takes jobs. Whether one of another"
                    " language is cannot be known here."
                )
            )
        ]
    held = Job.objects.using(job._state.db).locked()
    busy = held.filter(locked_by__in=alive.values("worker_id")).count()
    if busy >= taking:
        text = _("All workers are busy: they hold %(busy)d jobs and run %(places)d at a time.")
        return [Answer(text % {"busy": busy, "places": taking})]
    return []


def _ahead(job: Any) -> Answer:
    earlier = Q(priority__lt=job.priority) | Q(priority=job.priority, run_at__lt=job.run_at)
    due = Job.objects.using(job._state.db).due().filter(earlier, priority__lte=job.priority)
    ahead = due.order_by("priority", "run_at").values("pk")[: AHEAD + 1].count()
    if ahead > AHEAD:
        text = _("It is due, and waits for more than %(count)d due jobs that come before it.")
        return Answer(text % {"count": AHEAD})
    text = ngettext(
        "It is due, and waits for %(count)d due job that comes before it.",
        "It is due, and waits for %(count)d due jobs that come before it.",
        ahead,
    )
    if ahead:
        return Answer(text % {"count": ahead})
    return Answer(
        _("It is due and the first in line: the next worker that knows its task takes it.")
    )


def _lately(job: Any) -> list[Answer]:
    """Tell whether its task is run at all: workers do not say which tasks they know."""
    minutes = Statistic.objects.using(job._state.db).filter(
        minute__gte=Now() - timedelta(hours=1), task_identifier=job.task_identifier
    )
    if minutes.exists():
        return []
    return [
        Answer(
            _(
                "In the last hour no worker of this package has run a job of the task “%(task)s”:"
                " perhaps none that is running knows it."
            )
            % {"task": job.task_identifier}
        )
    ]


_EXPLAIN = {
    "ready": _ready,
    "scheduled": _scheduled,
    "retrying": _retrying,
    "running": _running,
    "failed": _failed,
}
