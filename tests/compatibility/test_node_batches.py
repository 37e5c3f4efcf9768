"""A Node worker that completes in batches falls where PostgreSQL ends its completion."""

from __future__ import annotations

from typing import Any

import pytest

from django_graphile_worker import enqueue_many, force_unlock_workers
from tests.compatibility.fleet import Fleet, fell, unhurt
from tests.conftest import Connect
from tests.doors.programs import WITHIN
from tests.waiting import eventually
from tests.worker.tools import Session

pytestmark = pytest.mark.node

HOLD = 4713
BATCHING = {"concurrentJobs": 3, "completeJobBatchDelay": 20, "localQueue": {"size": 20}}


@pytest.mark.parametrize("version", ["0.18", "0.17"])
def test_one_whose_completion_is_the_victim_leaves_its_jobs_locked(
    fleet: Fleet, connect: Connect, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    """It ends its whole pool. What it had run is locked for four hours, or until unlocked."""
    # Whoever has waited so long looks for a circle, once. So the victim is Node, and not by chance.
    monkeypatch.setenv("PGOPTIONS", "-c deadlock_timeout=5s")
    session = fleet.queue.session
    session.execute("select pg_advisory_lock(%s)", [HOLD])
    jobs = [job.id for job in enqueue_many([("note", {"n": n, "hold": HOLD}) for n in range(3)])]
    peer = fleet.node(version, worker=BATCHING)
    fleet.began(3)
    first, other = (connect(autocommit=False, options="-c deadlock_timeout=60s") for _ in range(2))
    lock(fleet, first, jobs[:1])
    session.execute("select pg_advisory_unlock(%s)", [HOLD])
    eventually(lambda: _is_waited_for(fleet, first), WITHIN)
    free = lock(fleet, other, jobs[1:], "skip locked")
    if len(free) == 2:  # Node has come to the first one first, and has none in hand yet
        first.rollback()
        eventually(lambda: _is_waited_for(fleet, other), WITHIN)
        lock(fleet, other, jobs[:1])
    else:
        lock(fleet, first, sorted({*jobs[1:]} - {*free}))
    first.rollback()
    other.rollback()

    peer.process.wait(WITHIN)
    assert fell(peer), peer.said()
    left: list[dict[str, Any]] = fleet.queue.jobs()
    assert [(job["id"], job["attempts"]) for job in left] == [(pk, 1) for pk in jobs]
    (owner,) = {job["locked_by"] for job in left}

    force_unlock_workers([owner])
    ours = fleet.django()
    fleet.ran(6)
    unhurt(fleet.stop(ours))


def lock(fleet: Fleet, session: Session, jobs: list[int], otherwise: str = "") -> list[int]:
    """Lock the rows of these jobs; return those that were locked."""
    rows = fleet.queue.query(
        f"select id from {{jobs}} where id = any(%s) for update {otherwise}", [jobs], session
    )
    return [row["id"] for row in rows]


def _is_waited_for(fleet: Fleet, session: Session) -> None:
    """Somebody waits for what this session has locked."""
    assert fleet.queue.query(
        "select pid from pg_stat_activity where %s = any(pg_blocking_pids(pid))",
        [session.info.backend_pid],
    )
