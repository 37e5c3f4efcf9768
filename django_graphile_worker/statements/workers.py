"""Life and death of workers: their rows, their heartbeat, and what frees the locks of the dead.

None of these waits for a job or a named queue that somebody has locked; what they miss is for the
next time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django_graphile_worker.sql import loader
from django_graphile_worker.statements.base import Statement

# How many jobs one sweep frees at most: it must end before the next heartbeat. The rest waits for
# the next sweep.
MOST_JOBS = 2_000

# How many failed attempts are remembered, and how many are deleted at a time.
KEPT_ERRORS = 100_000
MOST_ERRORS = 5_000


@dataclass(frozen=True, slots=True)
class Rescued:
    """What a sweep did.

    `workers` were declared dead by it; it freed `jobs` and `queues` (counts) that they or others
    had locked, the names of the jobs' owners being `owners`. `failed` of the jobs have no attempt
    left.
    """

    workers: tuple[str, ...]
    owners: tuple[str, ...]
    jobs: int
    queues: int
    failed: int

    def __bool__(self) -> bool:
        """Whether it did anything."""
        return bool(self.workers or self.jobs or self.queues)


def register_worker(
    *,
    schema: str,
    worker_id: str,
    host: str,
    pid: int,
    concurrency: int,
    heartbeat: float,
    stale_after: float,
) -> Statement[bool]:
    """Write down a worker that starts; tells whether it lives, or its name is a dead one's.

    `heartbeat` is how often it will be heard, and `stale_after` how long it may be silent, both in
    seconds. May be repeated where an answer was lost.
    """
    return Statement(
        "register_worker",
        loader.query("register_worker", schema),
        {
            "worker_id": worker_id,
            "host": host,
            "pid": pid,
            "concurrency": concurrency,
            "heartbeat": float(heartbeat),
            "stale_after": float(stale_after),
        },
        bool,
    )


def beat(*, schema: str, worker_ids: Iterable[str]) -> Statement[frozenset[str]]:
    """Tell that these workers live; returns the names of those that do.

    The others were declared dead, or never registered.
    """
    return Statement(
        "beat",
        loader.query("beat", schema),
        {"worker_ids": list(worker_ids)},
        lambda rows: frozenset(row[0] for row in rows),
    )


def renew_locks(*, schema: str, worker_ids: Iterable[str]) -> Statement[int]:
    """Renew the locks of these workers that are older than three hours; returns of how many jobs.

    A job and its named queue together. Once a minute is often enough: Node takes a lock for stale
    after four hours.
    """
    return Statement(
        "renew_locks",
        loader.query("renew_locks", schema),
        {"worker_ids": list(worker_ids)},
        lambda rows: int(rows[0][0]),
    )


def rescue(
    *,
    schema: str,
    worker_ids: Iterable[str] = (),
    by: str | None = None,
    orphans: bool = False,
    foreign: bool = False,
    most: int = MOST_JOBS,
) -> Statement[Rescued]:
    """Declare workers dead and free the jobs and named queues of all that are.

    `worker_ids` are known to be dead. `by` is the name of the worker that sweeps: with it, those
    are declared dead that have been silent for too long while `by` itself was heard. `orphans`:
    free also what was locked by workers of ours that have no row; `foreign`: by others more than
    four hours ago.
    """
    return Statement(
        "rescue",
        loader.query("rescue", schema),
        {
            "worker_ids": list(worker_ids),
            "by": by,
            "orphans": orphans,
            "foreign": foreign,
            "most": most,
        },
        lambda rows: Rescued(tuple(rows[0][0]), tuple(rows[0][1]), *rows[0][2:]),
    )


def forget_workers(*, schema: str) -> Statement[int]:
    """Delete the rows of workers that have long been dead and have nothing locked any more."""
    return Statement(
        "forget_workers", loader.query("forget_workers", schema), {}, lambda rows: int(rows[0][0])
    )


def trim_job_errors(
    *, schema: str, keep: int = KEPT_ERRORS, most: int = MOST_ERRORS
) -> Statement[int]:
    """Delete the oldest failed attempts, at most `most`; returns how many."""
    return Statement(
        "trim_job_errors",
        loader.query("trim_job_errors", schema),
        {"keep": keep, "most": most},
        lambda rows: int(rows[0][0]),
    )


def stopping_worker(*, schema: str, worker_id: str) -> Statement[bool]:
    """Write down that a worker has begun to stop; tells whether that is news of a live one."""
    return Statement(
        "stopping_worker", loader.query("stopping_worker", schema), {"worker_id": worker_id}, bool
    )


def leave_worker(*, schema: str, worker_id: str) -> Statement[bool]:
    """Take down a worker that has ended; tells whether its row is gone.

    Where something is locked by its name it counts as dead, at once, and others free that.
    """
    return Statement(
        "leave_worker",
        loader.query("leave_worker", schema),
        {"worker_id": worker_id},
        lambda rows: bool(rows[0][0]),
    )


def prepare_upkeep(*, seconds: float, local: bool) -> Statement[None]:
    """Let each statement take at most `seconds`.

    For the rest of the transaction (`local`) or of the session. What comes after may then raise
    `psycopg.errors.QueryCanceled` or `LockNotAvailable`.
    """
    return Statement(
        "prepare_upkeep",
        loader.query("prepare_upkeep", ""),
        {"milliseconds": max(1, round(seconds * 1_000)), "local": local},
        lambda rows: None,
    )
