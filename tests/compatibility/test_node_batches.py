"""A Node worker that completes in batches falls where PostgreSQL ends its completion."""

from __future__ import annotations

from typing import Any

import pytest
from psycopg import sql

from django_graphile_worker import enqueue_many, force_unlock_workers
from tests.compatibility.fleet import Fleet, fell, unhurt
from tests.conftest import Connect
from tests.doors.programs import WITHIN
from tests.waiting import eventually

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
    other = connect(autocommit=False, options="-c deadlock_timeout=60s")
    take = sql.SQL("select from {} where id = %s for update").format(
        fleet.queue.name("_private_jobs")
    )
    # In whichever order Node locks the three, it comes to the middle one with another in hand.
    other.execute(take, [jobs[1]])
    session.execute("select pg_advisory_unlock(%s)", [HOLD])
    other.execute(take, eventually(lambda: _in_hand(fleet, [jobs[0], jobs[2]]), WITHIN))
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


def _in_hand(fleet: Fleet, jobs: list[int]) -> list[int]:
    """Return the one of these that somebody has locked the row of."""
    free = fleet.queue.query("select id from {jobs} for update skip locked")
    held = set(jobs) - {row["id"] for row in free}
    assert held, free
    return [held.pop()]
