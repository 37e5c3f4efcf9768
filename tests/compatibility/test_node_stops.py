"""Node workers stop, well or badly, and ours goes on with what they leave."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from psycopg import sql

from django_graphile_worker import enqueue, enqueue_many
from tests.compatibility.fleet import Fleet, unhurt
from tests.doors.programs import WITHIN
from tests.waiting import eventually

pytestmark = pytest.mark.node

VERSIONS = ("0.18", "0.17")
HOLD = 4712

# Short, so that a test can wait for several rounds of looking for the dead.
QUICK = ("--heartbeat", "0.2", "--stale-after", "1")


def locked(fleet: Fleet) -> list[dict[str, Any]]:
    return fleet.queue.query("select * from {jobs} where locked_at is not null order by id")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("queued", [{}, {"localQueue": {"size": 4}}], ids=["", "local queue"])
def test_one_that_is_asked_to_stop_gives_back_what_it_has_not_begun(
    fleet: Fleet, queued: dict[str, Any], version: str
) -> None:
    """The job that ran then may stay locked, though it has ended: Node 0.17.3 and 0.18.0 do that
    on the schema that they publish as well. It is theirs for four hours, or until unlocked.
    """
    session = fleet.queue.session
    session.execute("select pg_advisory_lock(%s)", [HOLD])
    enqueue_many([("note", {"n": n, "hold": HOLD}) for n in range(6)])
    peer = fleet.node(version, worker={**queued, "concurrentJobs": 1})
    (first,) = fleet.began(1)
    eventually(lambda: _has_locked(fleet, 4 if queued else 1), WITHIN)
    peer.process.send_signal(signal.SIGTERM)
    peer.wait_for("graceful shutdown")
    eventually(lambda: _has_locked(fleet, 1), WITHIN)
    session.execute("select pg_advisory_unlock(%s)", [HOLD])
    peer.end()
    others = [job for job in fleet.queue.jobs() if job["id"] != first["job"]]
    assert [(job["attempts"], job["locked_by"]) for job in others] == [(0, None)] * 5

    ours = fleet.django()
    eventually(lambda: _has_ended(fleet, {job["id"] for job in others}), WITHIN)
    eventually(lambda: _only_locked_by(fleet, first["worker"]), WITHIN)
    fleet.call(["forceUnlockWorkers", [first["worker"]]], version=version)
    fleet.hurry()
    fleet.ran(6)
    unhurt(fleet.stop(ours))
    assert {run["peer"] for run in fleet.runs() if run["job"] != first["job"]} == {"django"}


def _only_locked_by(fleet: Fleet, worker: str) -> None:
    assert {job["locked_by"] for job in locked(fleet)} <= {worker}


def _has_ended(fleet: Fleet, jobs: set[int]) -> None:
    assert {run["job"] for run in fleet.runs() if run["ended"]} >= jobs


def _has_locked(fleet: Fleet, count: int) -> None:
    assert len(locked(fleet)) == count, f"{locked(fleet)} {fleet.runs()} {fleet.said()}"


def test_one_that_is_told_twice_fails_what_it_runs(fleet: Fleet) -> None:
    session = fleet.queue.session
    session.execute("select pg_advisory_lock(%s)", [HOLD])
    job = enqueue("note", {"hold": HOLD}, queue_name="lane", job_key="k")
    peer = fleet.node()
    fleet.began(1)

    def ended() -> None:
        # It is deaf to a second signal for five seconds.
        peer.process.send_signal(signal.SIGTERM)
        assert locked(fleet) == [], peer.said()

    eventually(ended, WITHIN)
    (row,) = fleet.queue.jobs()
    assert (row["id"], row["attempts"], row["key"]) == (job.id, 1, "k")
    assert row["last_error"]
    assert fleet.queue.queue("lane")["locked_at"] is None
    session.execute("select pg_advisory_unlock(%s)", [HOLD])
    peer.process.wait(WITHIN)
    fleet.hurry()
    ours = fleet.django()
    fleet.ran(1)
    unhurt(fleet.stop(ours))
    assert [(run["peer"], run["attempt"]) for run in fleet.runs()][-1] == ("django", 2)


@pytest.mark.parametrize("alive", [True, False], ids=["alive", "killed"])
def test_what_a_node_worker_has_locked_is_its_own_for_four_hours(fleet: Fleet, alive: bool) -> None:
    """Nobody can tell whether it lives. Ours frees what a dead one of ours held meanwhile."""
    queue = fleet.queue
    queue.session.execute("select pg_advisory_lock(%s)", [HOLD])
    taken = enqueue("note", {"n": 1, "hold": HOLD}, queue_name="lane")
    peer = fleet.node()
    fleet.began(1)
    if not alive:
        peer.process.kill()
        peer.process.wait()
    (before,) = locked(fleet)
    lane = queue.queue("lane")
    assert lane["locked_by"] == before["locked_by"]
    behind = enqueue("note", {"n": 2}, queue_name="lane")

    def age(interval: str) -> None:
        for table in ("jobs", "queues"):
            queue.query(
                f"update {{{table}}} set locked_at = now() - %s::interval"
                " where locked_at is not null",
                [interval],
            )

    age("239 minutes")
    kept = queue.job(taken.id), queue.queue("lane")
    # One of ours that is dead by now: when its job has run, a look at everybody's locks was taken.
    dead = queue.add("note", {"n": 3})
    queue.set(dead, locked_by="django:gone", attempts=1)
    queue.query("update {jobs} set locked_at = now() where id = %s", [dead])
    queue.session.execute(
        sql.SQL(
            "insert into {} (worker_id, host, pid, concurrency, heartbeat, stale_after,"
            " last_beat_at)"
            " values ('django:gone', 'test', 1, 1, '1 s', '1 s', now() - interval '1 hour')"
        ).format(queue.name("django_workers"))
    )
    ours = fleet.django(*QUICK)

    def rescued() -> None:
        fleet.hurry_one(dead)
        assert [run["job"] for run in fleet.runs() if run["peer"] == "django"] == [dead]

    eventually(rescued, WITHIN)
    assert (queue.job(taken.id), queue.queue("lane")) == kept
    assert queue.job(behind.id) is not None
    fleet.stop(ours)
    assert (queue.job(taken.id), queue.queue("lane")) == kept

    age("241 minutes")
    ours = fleet.django(*QUICK)
    fleet.ready(ours)
    queue.session.execute("select pg_advisory_unlock(%s)", [HOLD])

    def all_ran() -> None:
        assert {run["job"] for run in fleet.runs() if run["ended"]} >= {taken.id, behind.id, dead}
        assert queue.jobs() == []
        assert queue.locks() == 0

    eventually(all_ran, WITHIN)
    fleet.stop(ours)
