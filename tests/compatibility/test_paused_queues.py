"""A named queue that is paused is left alone by workers of both kinds, and by what Node sweeps."""

from __future__ import annotations

from typing import Any

import pytest

from django_graphile_worker import QueueInUse, enqueue, enqueue_many, pause_queue, resume_queue
from django_graphile_worker.statements.queues import PAUSED
from tests.compatibility.fleet import Fleet, NodePeer, unhurt
from tests.compatibility.test_mixed_fleet import BATCHING
from tests.doors.programs import WITHIN, Program
from tests.waiting import eventually

pytestmark = pytest.mark.node

HOLD = 4714
# Looked for again and again, so that a test need not wait ten minutes for it.
SWEEPING = {"minResetLockedInterval": 50, "maxResetLockedInterval": 100}
KINDS: list[tuple[str, Any]] = [
    ("0.18", SWEEPING),
    ("0.18", {**SWEEPING, **BATCHING}),
    ("0.17", SWEEPING),
    ("ours", {}),
]


@pytest.fixture(params=KINDS, ids=str)
def kind(request: pytest.FixtureRequest) -> tuple[str, Any]:
    found: tuple[str, Any] = request.param
    return found


def start(fleet: Fleet, kind: tuple[str, Any]) -> NodePeer | Program:
    version, worker = kind
    return fleet.django() if version == "ours" else fleet.node(version, worker=worker)


def lane(fleet: Fleet) -> str | None:
    owner: str | None = fleet.queue.queue("lane")["locked_by"]
    return owner


def test_its_jobs_wait_until_it_is_resumed(fleet: Fleet, kind: tuple[str, Any]) -> None:
    assert pause_queue("lane") is True
    waits = enqueue("note", {"n": 1}, queue_name="lane", priority=-10)
    enqueue("note", {"n": 2}, queue_name="abandoned")
    if kind[0] != "ours":  # Node's sweep frees this one; with ours, a test of the sweep tells
        fleet.queue.query(
            "update {queues} set locked_by = 'gone', locked_at = now() - interval '5 hours'"
            " where queue_name = 'abandoned'"
        )
    peer = start(fleet, kind)
    enqueue_many([("note", {"n": n}) for n in range(3, 13)])

    def others_are_done() -> None:
        assert ended(fleet) == set(range(2, 13))
        assert [job["id"] for job in fleet.queue.jobs()] == [waits.id]

    eventually(others_are_done, WITHIN)
    assert lane(fleet) == PAUSED
    assert resume_queue("lane") is True
    assert resume_queue("lane") is False
    fleet.ran(12)
    unhurt(fleet.stop(peer))


def ended(fleet: Fleet) -> set[int]:
    return {run["payload"]["n"] for run in fleet.runs() if run["ended"] is not None}


@pytest.mark.parametrize("fails", [False, True])
def test_a_job_taken_before_ends_and_the_queue_stays_paused(
    fleet: Fleet, kind: tuple[str, Any], fails: bool
) -> None:
    session = fleet.queue.session
    session.execute("select pg_advisory_lock(%s)", [HOLD])
    payload = {"n": 1, "hold": HOLD, "fail": fails}
    taken = enqueue("note", payload, queue_name="lane", max_attempts=1)
    peer = start(fleet, kind)
    (run,) = fleet.began(1)
    behind = enqueue("note", {"n": 2}, queue_name="lane")
    assert pause_queue("lane") is True
    with pytest.raises(QueueInUse) as refused:
        resume_queue("lane")
    assert (refused.value.job_id, refused.value.worker_id) == (taken.id, run["worker"])
    session.execute("select pg_advisory_unlock(%s)", [HOLD])

    def is_over() -> None:
        assert [job["id"] for job in fleet.queue.jobs() if job["locked_at"]] == []
        ids = [job["id"] for job in fleet.queue.jobs()]
        assert ids == ([taken.id, behind.id] if fails else [behind.id])

    eventually(is_over, WITHIN)
    # Ours frees a lane after it has ended the job, and not later than by when it has stopped.
    fleet.stop(peer)
    assert lane(fleet) == PAUSED
    assert resume_queue("lane") is True
    assert lane(fleet) is None
    peer = start(fleet, kind)
    fleet.began(2)
    fleet.stop(peer)
    assert ended(fleet) == {1, 2}
    assert fleet.queue.locks() == 0


@pytest.mark.parametrize("version", ["0.18", "0.17"])
def test_a_cleanup_leaves_it_paused(fleet: Fleet, version: str) -> None:
    """Node's deletes a queue without a job, and not one that is locked."""
    fleet.queue.query("select * from {add_job}('note', queue_name => 'other', job_key => 'k')")
    fleet.queue.query("delete from {jobs}")
    pause_queue("lane")
    fleet.call(["cleanup", {"tasks": ["GC_JOB_QUEUES"]}], version=version)
    names = fleet.queue.query("select queue_name, locked_by from {queues}")
    assert names == [{"queue_name": "lane", "locked_by": PAUSED}]
