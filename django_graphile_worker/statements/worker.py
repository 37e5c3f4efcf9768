"""The worker's own statements: take jobs, and say how they ended.

Those that lock rows do it with skip locked, so none of them ever waits for another transaction:
what they miss is asked for again. Ids travel as one text literal, cheaper than a list of numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import NamedTuple

from django_graphile_worker.jobs import LockedJob, Outcome
from django_graphile_worker.sql import loader
from django_graphile_worker.statements.base import Row, Statement


class QueueLock(NamedTuple):
    """A named queue locked for a job, and when (database time, as of the job's fetch)."""

    queue_id: int
    job_id: int
    locked_at: datetime | None


@dataclass(frozen=True, slots=True)
class Ended:
    """What came of ending some jobs.

    `count` of them were ended. `ids` says which, where some were missed; else it is `None`.
    `superseded` and `runs_again` are those that had lost their key since they were taken: the
    second ones (only given back, never failed or completed) get one more run.
    """

    count: int
    ids: frozenset[int] | None
    superseded: list[int]
    runs_again: list[int]


def get_jobs(
    *,
    schema: str,
    worker_id: str,
    identifiers: Sequence[str],
    slots: int,
    room: int,
    forbidden_flags: Sequence[str] = (),
    by_lanes: bool = False,
    now: datetime | None = None,
) -> Statement[list[LockedJob]]:
    """Take up to `slots` due jobs that begin at once, and up to `room` jobs in all.

    `by_lanes` is the form for a table whose head is full of jobs that are not ours to take; the
    same jobs come of both. `now` stands for the database's clock, in tests.
    """
    return Statement(
        "get_jobs",
        _get_jobs_text(schema, by_lanes),
        {
            "worker_id": worker_id,
            "identifiers": list(identifiers),
            "slots": slots,
            "room": room,
            "forbidden_flags": list(forbidden_flags),
            "now": now,
        },
        _locked_jobs,
    )


@cache
def _get_jobs_text(schema: str, by_lanes: bool) -> str:
    line = loader.query("get_jobs_lanes" if by_lanes else "get_jobs_line", schema)
    return f"{line}{loader.query('get_jobs', schema)}"


def set_up_worker(local: bool) -> Statement[None]:
    """Let statements read along indexes and wait for 200 ms at most.

    For the rest of the transaction (`local`) or of the session. What comes after may then raise
    `psycopg.errors.LockNotAvailable`.
    """
    return Statement(
        "set_up_worker", loader.query("set_up_worker", ""), {"local": local}, lambda rows: None
    )


def worker_is_alive(*, schema: str, worker_id: str) -> Statement[bool]:
    """Tell whether the worker's row is there and not marked dead."""
    return Statement(
        "worker_is_alive",
        loader.query("worker_is_alive", schema),
        {"worker_id": worker_id},
        lambda rows: bool(rows[0][0]),
    )


def get_unknown_jobs(
    *, schema: str, worker_id: str, known_ids: Iterable[int]
) -> Statement[list[LockedJob]]:
    """Find the jobs that the worker has locked, but for those it knows of."""
    return Statement(
        "get_unknown_jobs",
        loader.query("get_unknown_jobs", schema),
        {"worker_id": worker_id, "known_ids": _array(known_ids)},
        _locked_jobs,
    )


def due_jobs_exist(
    *,
    schema: str,
    identifiers: Sequence[str],
    forbidden_flags: Sequence[str] = (),
    now: datetime | None = None,
) -> Statement[bool]:
    """Tell whether a due job is there to be taken, whoever may hold its row at this moment."""
    return Statement(
        "due_jobs_exist",
        loader.query("due_jobs_exist", schema),
        {"identifiers": list(identifiers), "forbidden_flags": list(forbidden_flags), "now": now},
        lambda rows: bool(rows[0][0]),
    )


def get_unserved_tasks(*, schema: str, identifiers: Sequence[str]) -> Statement[list[str]]:
    """Find other tasks than these of which jobs have been due for a minute; twenty at most."""
    return Statement(
        "get_unserved_tasks",
        loader.query("get_unserved_tasks", schema),
        {"identifiers": list(identifiers)},
        lambda rows: [row[0] for row in rows],
    )


def rows_are_hidden(*, schema: str) -> Statement[bool]:
    """Tell whether row level security may hide jobs from the role of this connection."""
    return Statement(
        "rows_are_hidden",
        loader.query("rows_are_hidden", ""),
        {"schema": schema},
        lambda rows: bool(rows[0][0]),
    )


def complete_jobs(*, schema: str, worker_id: str, jobs: Sequence[LockedJob]) -> Statement[Ended]:
    """Delete jobs that have succeeded."""
    return Statement(
        "complete_jobs", loader.query("complete_jobs", schema), _ending(worker_id, jobs), _ended
    )


def fail_jobs(*, schema: str, worker_id: str, outcomes: Sequence[Outcome]) -> Statement[Ended]:
    """Note the errors of jobs that have failed, and let the jobs run again later."""
    return Statement(
        "fail_jobs",
        loader.query("fail_jobs", schema),
        {
            **_ending(worker_id, [outcome.job for outcome in outcomes]),
            "errors": [outcome.error or "" for outcome in outcomes],
            "delays": [outcome.retry_after for outcome in outcomes],
            "permanent": [outcome.permanent for outcome in outcomes],
            "payloads": [outcome.payload for outcome in outcomes],
        },
        _ended,
    )


def return_jobs(*, schema: str, worker_id: str, jobs: Sequence[LockedJob]) -> Statement[Ended]:
    """Give back jobs that were never begun."""
    return Statement(
        "return_jobs", loader.query("return_jobs", schema), _ending(worker_id, jobs), _ended
    )


def free_queues(
    *, schema: str, worker_id: str, locks: Sequence[QueueLock]
) -> Statement[frozenset[int]]:
    """Free named queues; the result names those that are held still."""
    return Statement(
        "free_queues",
        loader.query("free_queues", schema),
        {
            "worker_id": worker_id,
            "ids": [lock.queue_id for lock in locks],
            "job_ids": [lock.job_id for lock in locks],
            "locked_at": [lock.locked_at for lock in locks],
        },
        _ids,
    )


def get_held_jobs(*, schema: str, worker_id: str, ids: Iterable[int]) -> Statement[frozenset[int]]:
    """Tell which of these jobs the worker still has locked."""
    return Statement(
        "get_held_jobs",
        loader.query("get_held_jobs", schema),
        {"worker_id": worker_id, "ids": _array(ids)},
        _ids,
    )


def finish_conflicts(*, schema: str, job_ids: Iterable[int], outcome: str) -> Statement[int]:
    """Write down how superseded jobs ended: 'completed', 'failed' or 'returned'."""
    return Statement(
        "finish_conflicts",
        loader.query("finish_conflicts", schema),
        {"job_ids": _array(job_ids), "outcome": outcome},
        lambda rows: int(rows[0][0]),
    )


def get_revision(*, schema: str) -> Statement[tuple[int | None, int | None]]:
    """Tell the schema's revision and the version of our functions."""
    return Statement(
        "get_revision", loader.query("get_revision", schema), {}, lambda rows: tuple(rows[0][:2])
    )


def _ending(worker_id: str, jobs: Sequence[LockedJob]) -> dict[str, object]:
    return {
        "worker_id": worker_id,
        "ids": _array(job.id for job in jobs),
        "keyed_ids": _array(job.id for job in jobs if job.key is not None),
    }


def _array(ids: Iterable[int]) -> str:
    return "{" + ",".join(map(str, ids)) + "}"


def _ids(rows: Sequence[Row]) -> frozenset[int]:
    return frozenset(row[0] for row in rows)


def _ended(rows: Sequence[Row]) -> Ended:
    count, ids, superseded, *runs_again = rows[0]
    return Ended(
        count=count,
        ids=None if ids is None else frozenset(ids),
        superseded=superseded,
        runs_again=runs_again[0] if runs_again else [],
    )


def _locked_jobs(rows: Sequence[Row]) -> list[LockedJob]:
    return list(map(LockedJob._make, rows))
