"""Node workers and ours serve one queue at the same time."""

from __future__ import annotations

import math
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from django_graphile_worker import enqueue, enqueue_many
from tests.compatibility.fleet import Fleet, NodePeer, unhurt
from tests.doors.programs import WITHIN, Program
from tests.waiting import eventually

pytestmark = pytest.mark.node

VERSIONS = ("0.18", "0.17")
# As Node's documentation recommends for high throughput.
BATCHING = {"localQueue": {"size": 5}, "completeJobBatchDelay": 0, "failJobBatchDelay": 0}

HOLD = 4711


@pytest.mark.parametrize("version", VERSIONS)
def test_both_serve_one_task_and_each_job_runs_once(fleet: Fleet, version: str) -> None:
    peers = fleet.both("--concurrency", "4", version=version, worker={"concurrentJobs": 4})
    session = fleet.queue.session
    session.execute("select pg_advisory_lock(%s)", [HOLD])
    # Jobs with a key are never taken ahead of free slots: so many fill both to the last.
    enqueue_many([{"task": "note", "payload": {"hold": HOLD}, "job_key": f"{n}"} for n in range(8)])
    runs = fleet.began(8)
    assert Counter(run["peer"] for run in runs) == {"node": 4, "django": 4}
    assert len({run["job"] for run in runs}) == 8
    session.execute("select pg_advisory_unlock(%s)", [HOLD])

    enqueue_many([("note", {"by": "python"}) for _ in range(150)])
    specs = [{"identifier": "note", "payload": {"by": "node"}} for _ in range(150)]
    fleet.call(["addJobs", specs], *[["addJob", "note", {"by": "node"}]] * 10, version=version)
    for _ in range(10):
        fleet.queue.add("note", {"by": "sql"})
    fleet.ran(8 + 320)
    unhurt(*map(fleet.stop, peers))
    runs = fleet.runs()
    assert len(runs) == len({run["job"] for run in runs}) == 8 + 320
    assert Counter(run["payload"].get("by") for run in runs) == {
        **{None: 8, "python": 150, "node": 160, "sql": 10}
    }


@pytest.mark.parametrize(
    ("version", "worker"), [("0.18", {}), ("0.18", BATCHING), ("0.17", {})], ids=str
)
def test_named_queues_run_one_by_one_and_in_order(
    fleet: Fleet, version: str, worker: dict[str, Any]
) -> None:
    peers = fleet.both(
        "--concurrency", "4", version=version, worker={"concurrentJobs": 4, **worker}
    )
    start = datetime.now(UTC) - timedelta(hours=1)
    enqueue_many(
        {
            "task": "note",
            "payload": {"n": n, "lane": n % 4, "pause": 3},
            "queue_name": f"lane {n % 4}",
            "run_at": start + timedelta(seconds=n),
        }
        for n in range(200)
    )
    fleet.ran(200)
    unhurt(*map(fleet.stop, peers))
    runs = fleet.runs()
    assert len(runs) == 200
    assert {run["peer"] for run in runs} == {"node", "django"}
    for lane in range(4):
        mine = [run for run in runs if run["payload"]["lane"] == lane]
        assert [run["payload"]["n"] for run in mine] == list(range(lane, 200, 4))
        for one, following in pairwise(mine):
            assert one["ended"] <= following["began"], (one, following)


def test_each_leaves_alone_what_its_forbidden_flags_name(fleet: Fleet) -> None:
    every: tuple[list[str], ...] = ([], ["slow"], ["far"], ["slow", "far"])
    for flags in every:
        enqueue("note", {"by": "python", "flags": flags}, flags=flags)
    fleet.call(*(["addJob", "note", {"flags": flags}, {"flags": flags}] for flags in every))
    peers = fleet.both("--forbidden-flags", "far", forbiddenFlags=["slow"])

    def only_those_of_both_are_left() -> None:
        left = fleet.queue.jobs()
        assert [job["payload"]["flags"] for job in left] == [["slow", "far"]] * 2
        assert fleet.queue.locks() == 0

    eventually(only_those_of_both_are_left, WITHIN)
    unhurt(*map(fleet.stop, peers))
    only_those_of_both_are_left()
    ran = {(run["peer"], *run["payload"]["flags"]) for run in fleet.runs()}
    assert ran - {("node",), ("django",)} == {("node", "far"), ("django", "slow")}
    assert len(fleet.runs()) == 6


def run_once(fleet: Fleet, peer: str, runs: int, version: str = "0.18") -> str:
    """Let a worker of one kind run what is due, until so many runs have ended and none is on."""
    worker = fleet.node(version) if peer == "node" else fleet.django()

    def written() -> None:
        assert len([run for run in fleet.runs() if run["ended"] is not None]) == runs
        assert fleet.queue.locks() == 0

    eventually(written, WITHIN)
    return fleet.stop(worker)


@pytest.mark.parametrize(
    ("first", "second", "version"),
    [("node", "django", "0.18"), ("django", "node", "0.18"), ("node", "django", "0.17")],
)
def test_what_failed_of_a_batch_goes_on_with_the_other(
    fleet: Fleet, first: str, second: str, version: str
) -> None:
    items = [
        {"n": 1, "fails_in": []},
        {"n": 2, "fails_in": [first, second]},
        {"n": 3, "fails_in": [first]},
        {"n": 4, "fails_in": [second]},
    ]
    job = enqueue("batch", items, queue_name="lane", job_key="k")
    run_once(fleet, first, 1, version)
    (row,) = fleet.queue.jobs()
    assert (row["id"], row["attempts"], row["key"]) == (job.id, 1, "k")
    assert row["payload"] == [items[1], items[2]]
    assert row["last_error"]
    fleet.hurry()
    run_once(fleet, second, 2, version)
    (row,) = fleet.queue.jobs()
    assert (row["attempts"], row["payload"]) == (2, [items[1]])
    assert [run["payload"] for run in fleet.runs()] == [items, items[1:3]]
    # What is added under the key joins what is left, whoever adds it.
    fleet.call(["addJob", "batch", [{"n": 5, "fails_in": []}], {"jobKey": "k"}], version=version)
    (row,) = fleet.queue.jobs()
    assert ([item["n"] for item in row["payload"]], row["attempts"]) == ([2, 5], 0)


@pytest.mark.parametrize(("peer", "version"), [("node", "0.18"), ("node", "0.17"), ("django", "")])
def test_a_failed_job_waits_as_long_with_either(fleet: Fleet, peer: str, version: str) -> None:
    earlier = {}
    for attempts in (0, 1, 4, 9, 10, 15):
        pk = fleet.queue.add("note", {"fail": True}, max_attempts=16)
        fleet.queue.set(pk, attempts=attempts)
        earlier[pk] = attempts
    before = fleet.queue.query("select clock_timestamp() as now")[0]["now"]
    run_once(fleet, peer, 6, version)
    after = fleet.queue.query("select clock_timestamp() as now")[0]["now"]
    for row in fleet.queue.jobs():
        assert row["attempts"] == earlier[row["id"]] + 1
        pause = timedelta(seconds=math.exp(min(row["attempts"], 10)))
        moment = timedelta(milliseconds=1)
        assert before - moment <= row["run_at"] - pause <= after + moment, row
        assert row["last_error"].startswith(("asked to", "RuntimeError: asked to"))
        assert row["locked_at"] is row["locked_by"] is None
        # The last attempt is over for good, and the row stays.
        assert row["is_available"] is (row["attempts"] < 16)
    assert [row["attempts"] for row in fleet.queue.jobs()] == [1, 2, 5, 10, 11, 16]
    # Only ours write down each attempt.
    told = {row["job_id"] for row in fleet.queue.query("select job_id from {errors}")}
    assert told == (set(earlier) if peer == "django" else set())


@pytest.mark.parametrize("peer", ["node", "django"])
def test_a_key_is_taken_from_a_job_that_either_runs(fleet: Fleet, peer: str) -> None:
    session = fleet.queue.session
    worker: NodePeer | Program = fleet.node() if peer == "node" else fleet.django()
    session.execute("select pg_advisory_lock(%s)", [HOLD])
    first = enqueue("note", {"n": 1, "hold": HOLD}, job_key="k", queue_name="lane")
    fleet.began(1)
    ((second,), listed, freed) = fleet.call(
        ["addJobs", [{"identifier": "note", "payload": {"n": 2}, "jobKey": "k"}]],
        ["completeJobs", [str(first.id)]],
        ["permanentlyFailJobs", [str(first.id)], "told so"],
    )
    # Whoever runs it, nobody else may end it.
    assert (listed, freed) == ([], [])
    third = enqueue("note", {"n": 3, "hold": HOLD}, job_key="k")
    running = fleet.queue.job(first.id)
    assert running is not None
    assert (running["key"], running["attempts"]) == (None, 25)
    assert running["locked_by"] is not None
    (conflict, *_) = fleet.queue.conflicts()
    assert (conflict["superseded_job_id"], conflict["key"]) == (first.id, "k")
    assert int(second["id"]) != first.id
    assert third.job_key == "k"
    session.execute("select pg_advisory_unlock(%s)", [HOLD])
    fleet.ran(2)
    unhurt(fleet.stop(worker))
    assert [run["payload"]["n"] for run in fleet.runs()][-1] == 3
