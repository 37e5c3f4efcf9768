"""The whole worker: lanes, callers' transactions, stopping, draining, dying."""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from django_graphile_worker.exceptions import SchemaConflict
from django_graphile_worker.jobs import LockedJob
from django_graphile_worker.worker.identity import new_worker_id
from tests.conftest import Connect
from tests.database.test_get_jobs import fetch
from tests.waiting import eventually
from tests.worker.conftest import MakePool, StartPool
from tests.worker.tools import Queue, Running, register

WITHIN = 15


class Lanes:
    """A task that notes which jobs of each lane ran, and whether two of them ever overlapped."""

    def __init__(self) -> None:
        self.order: dict[str, list[int]] = defaultdict(list)
        self.overlaps: list[str] = []
        self._running: set[str] = set()
        self._mutex = threading.Lock()

    def task(self, lane: str, n: int) -> None:
        with self._mutex:
            if lane in self._running:
                self.overlaps.append(lane)
            self._running.add(lane)
            self.order[lane].append(n)
        time.sleep(0.001)  # a moment in which another one could begin: the load, not a wait
        with self._mutex:
            self._running.remove(lane)


def all_done(queue: Queue, within: float = WITHIN) -> None:
    def done() -> None:
        assert [(row["id"], row["locked_by"], row["last_error"]) for row in queue.jobs()] == []

    def unlocked() -> None:
        assert queue.locks() == 0

    eventually(done, within)
    # A queue whose row somebody had locked just then is freed with the next try.
    eventually(unlocked, within)


def fill_lanes(queue: Queue, lanes: int, each: int, **options: Any) -> None:
    start = datetime.now(UTC) - timedelta(hours=1)
    for n in range(each):
        for lane in range(lanes):
            queue.add(
                "task",
                {"lane": str(lane), "n": n},
                queue_name=str(lane),
                run_at=start + timedelta(seconds=n),
                **options,
            )


def test_twelve_jobs_of_one_queue_never_overlap_and_keep_their_order(
    queue: Queue, start_pool: StartPool
) -> None:
    lanes = Lanes()
    fill_lanes(queue, lanes=1, each=12)
    for _ in range(2):
        start_pool(register(task=lanes.task), concurrency=8, poll_interval=0.02)

    all_done(queue)
    assert lanes.overlaps == []
    assert lanes.order == {"0": list(range(12))}
    assert queue.locks() == 0


def test_many_jobs_of_several_queues_and_of_none(queue: Queue, start_pool: StartPool) -> None:
    lanes = Lanes()
    free: list[int] = []
    fill_lanes(queue, lanes=7, each=30)
    for n in range(200):
        queue.add("free", {"n": n})
    for _ in range(2):
        start_pool(
            register(task=lanes.task, free=lambda n: free.append(n)),
            concurrency=4,
            poll_interval=0.02,
        )

    all_done(queue)
    assert lanes.overlaps == []
    assert lanes.order == {str(lane): list(range(30)) for lane in range(7)}
    assert sorted(free) == list(range(200))
    assert queue.locks() == 0


def test_two_pools_race_and_every_job_runs_once(queue: Queue, start_pool: StartPool) -> None:
    ran: list[int] = []
    for n in range(1_000):
        queue.add("task", {"n": n})
    pools = [
        start_pool(register(task=lambda n: ran.append(n)), concurrency=8, poll_interval=0.02)
        for _ in range(2)
    ]

    all_done(queue)
    assert [running.stop() for running in pools] == [0, 0]
    assert sorted(ran) == list(range(1_000))


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_callers_transaction_over_a_running_job_holds_nothing_up(
    queue: Queue, connect: Connect, start_pool: StartPool, end: str
) -> None:
    go_on = threading.Event()
    ran: list[Any] = []

    def task(n: int) -> None:
        if n == 0:
            go_on.wait(WITHIN)
        ran.append(n)

    start_pool(register(task), concurrency=1).pool.executor.begun.watch()
    superseded = queue.add("task", {"n": 0}, job_key="k")
    eventually(lambda: _is_locked(queue, superseded))
    caller = connect(autocommit=False)
    successor = queue.add("task", {"n": 100}, job_key="k", session=caller)
    go_on.set()
    for n in range(1, 6):
        queue.add("task", {"n": n})
    # The worker goes on with the others, though it cannot write down the first one's end.
    eventually(lambda: _has_jobs(queue, [superseded]))
    assert ran == [0, 1, 2, 3, 4, 5]

    getattr(caller, end)()
    all_done(queue)
    if end == "commit":
        assert ran[-1] == 100
        (record,) = queue.conflicts()
        assert (record["superseded_job_id"], record["successor_job_id"]) == (superseded, successor)
        assert record["outcome"] == "completed"
    else:
        assert ran[-1] == 5
        assert queue.conflicts() == []


def _is_locked(queue: Queue, job_id: int) -> None:
    job = queue.job(job_id)
    assert job is not None
    assert job["locked_by"] is not None


def _has_jobs(queue: Queue, job_ids: list[int]) -> None:
    assert [job["id"] for job in queue.jobs()] == job_ids


def test_a_failed_job_runs_again_after_its_pause(queue: Queue, start_pool: StartPool) -> None:
    ran: list[int] = []

    def task() -> None:
        ran.append(len(ran))
        if len(ran) == 1:
            raise ValueError("boom")

    running = start_pool(register(task))
    job_id = queue.add("task", queue_name="lane")

    def failed() -> dict[str, Any]:
        job = queue.job(job_id)
        assert job is not None
        assert job["last_error"] is not None
        return job

    job = eventually(failed)
    assert job["last_error"].startswith("ValueError: boom")
    assert (job["attempts"], job["locked_by"]) == (1, None)
    eventually(lambda: _locks(queue, 0))

    queue.set(job_id, run_at=datetime.now(UTC))
    running.pool.fetcher.wake()
    all_done(queue)
    assert ran == [0, 1]


def _locks(queue: Queue, count: int) -> None:
    assert queue.locks() == count


class Gate:
    """A task that runs until the test lets it end."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.began: list[int] = []

    def task(self, n: int) -> None:
        self.began.append(n)
        self.open.wait(WITHIN)


def hold_two(queue: Queue, start_pool: StartPool, gate: Gate, **options: Any) -> Running:
    """A pool with one job that runs, and others that were taken and are not begun."""
    running = start_pool(register(task=gate.task), concurrency=1, **options)
    pool = running.pool
    queue.add("task", {"n": 0})
    eventually(lambda: _equal(gate.began, [0]))
    # As fast jobs would have had it: then some are taken ahead.
    pool.fetcher._pace._ahead = 5
    pool.fetcher._pace._measured_at = time.monotonic() + 3_600
    return running


def _equal(one: object, other: object) -> None:
    assert one == other


def test_a_stop_lets_jobs_end_and_gives_back_what_was_not_begun(
    queue: Queue, start_pool: StartPool
) -> None:
    gate = Gate()
    running = hold_two(queue, start_pool, gate)
    ids = [queue.add("task", {"n": n}) for n in range(1, 4)]
    running.pool.fetcher.wake()
    eventually(lambda: _locks(queue, 4))

    running.pool.stop()
    # Given back at once, not only when the running job has ended.
    eventually(lambda: _locks(queue, 1))
    assert running.thread.is_alive()
    gate.open.set()
    assert running.join() == 0

    assert gate.began == [0]
    assert {job["id"]: job["attempts"] for job in queue.jobs()} == dict.fromkeys(ids, 0)
    assert queue.locks() == 0


def test_what_was_superseded_before_it_was_begun_is_done_or_runs_once_more(
    queue: Queue, start_pool: StartPool
) -> None:
    gate = Gate()
    running = start_pool(register(task=gate.task), concurrency=1)
    queue.add("task", {"n": 0})
    eventually(lambda: _equal(gate.began, [0]))
    # Keys are not taken ahead: put two such jobs into the line by hand.
    batch = queue.add("task", [1], job_key="a")
    plain = queue.add("task", {"n": 2}, job_key="b")
    jobs = fetch(queue, worker_id=running.pool.worker_id, identifiers=["task"])
    running.pool.executor.feed(jobs)
    successors = [queue.add("task", [3], job_key="a"), queue.add("task", {"n": 4}, job_key="b")]
    running.pool.stop()
    eventually(lambda: _is_set(running.pool.executor.stopping))
    gate.open.set()
    assert running.join() == 0

    rows = {job["id"]: job for job in queue.jobs()}
    assert rows.keys() == {batch, *successors}
    assert rows[batch]["is_available"]
    assert rows[batch]["attempts"] == rows[batch]["max_attempts"] - 1
    assert {record["superseded_job_id"]: record["outcome"] for record in queue.conflicts()} == {
        batch: "returned",
        plain: "completed",
    }


@pytest.mark.parametrize("how", ["second stop", "timeout"])
def test_a_job_that_does_not_end_is_failed_and_its_queue_freed(
    queue: Queue, start_pool: StartPool, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate()
    running = start_pool(
        register(task=gate.task),
        concurrency=1,
        shutdown_timeout=3_600 if how == "second stop" else 0.05,
    )
    job_id = queue.add("task", {"n": 0}, queue_name="lane")
    eventually(lambda: _equal(gate.began, [0]))

    running.pool.stop()
    if how == "second stop":
        running.pool.stop()
    assert running.join() == 1
    assert running.pool.stuck

    job = queue.job(job_id)
    assert job is not None
    assert job["last_error"].startswith("WorkerStopped: ")
    assert (job["attempts"], job["locked_by"]) == (1, None)
    assert queue.locks() == 0
    assert f"Job {job_id} (task) was still running" in caplog.text

    # When the task ends after all, nothing more is written.
    gate.open.set()
    assert running.pool.executor.join(WITHIN)
    assert queue.job(job_id) == job


def test_what_a_fetch_brings_after_the_last_patience_is_given_back(
    queue: Queue, start_pool: StartPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = start_pool(register(task=lambda: None), shutdown_timeout=0)
    pool, feed = running.pool, running.pool.fetcher._feed
    fetched, arrived = threading.Event(), threading.Event()

    def feed_late(jobs: list[LockedJob]) -> None:
        fetched.set()
        arrived.wait(WITHIN)
        feed(jobs)

    monkeypatch.setattr(pool.fetcher, "_feed", feed_late)
    job_id = queue.add("task")
    assert fetched.wait(WITHIN)
    pool.stop()
    pool.stop()
    assert pool.listener.join(WITHIN)
    assert pool.executor.join(WITHIN)
    arrived.set()
    running.join()

    job = queue.job(job_id)
    assert job is not None
    assert (job["attempts"], job["locked_by"]) == (0, None)


def test_a_pool_that_was_stopped_before_it_ran_ends_at_once(
    queue: Queue, make_pool: MakePool
) -> None:
    queue.add("task")
    pool = make_pool(register(task=lambda: None))
    pool.stop()

    assert Running(pool).join() == 0
    assert queue.locks() == 0


@pytest.mark.parametrize("part", ["completer", "fetcher", "listener", "executor"])
def test_when_a_part_dies_the_pool_ends_and_says_so(
    queue: Queue,
    make_pool: MakePool,
    part: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    pool = make_pool(register(task=lambda: None))

    def die(number: int) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr(getattr(pool, part), "work", die)
    with caplog.at_level(logging.CRITICAL, "graphile_worker"):
        assert Running(pool).join() == 1

    assert f"The {part} died." in caplog.text
    assert "RuntimeError: a fault" in caplog.text


def test_one_slot_that_dies_ends_the_pool_while_the_others_still_run(
    queue: Queue, start_pool: StartPool
) -> None:
    gate = Gate()
    running = start_pool(register(task=gate.task, other=lambda: None), concurrency=2)
    queue.add("task", {"n": 0})
    eventually(lambda: _equal(gate.began, [0]))

    def die(slot: int, job: object) -> None:
        raise RuntimeError("a fault")

    object.__setattr__(running.pool.executor._sync_slots._around, "begin", die)
    queue.add("other")
    eventually(lambda: _is_set(running.pool.fetcher.stopping))
    gate.open.set()

    assert running.join() == 1


def _is_set(fact: bool) -> None:
    assert fact


def test_draining_leaves_nothing_locked(queue: Queue, start_pool: StartPool) -> None:
    for _ in range(20):
        for n in range(25):
            queue.add("task", {}, queue_name=f"lane {n % 3}" if n % 2 else None)
        assert start_pool(register(task=lambda: None), once=True, concurrency=4).join() == 0
        assert queue.jobs() == []
        assert queue.locks() == 0


def test_draining_includes_what_comes_up_meanwhile(queue: Queue, start_pool: StartPool) -> None:
    ran: list[int] = []

    def task(n: int) -> None:
        ran.append(n)
        if n < 5:
            queue.add("task", {"n": n + 1}, queue_name="lane")

    queue.add("task", {"n": 0}, queue_name="lane")
    future = queue.add("task", {"n": 9}, run_at=datetime.now(UTC) + timedelta(hours=1))
    foreign = queue.add("served_elsewhere")
    assert start_pool(register(task), once=True).join() == 0

    assert ran == [0, 1, 2, 3, 4, 5]
    assert [job["id"] for job in queue.jobs()] == [future, foreign]


def test_draining_ends_though_jobs_fail(queue: Queue, start_pool: StartPool) -> None:
    job_id = queue.add("task", queue_name="lane")
    assert start_pool(register(task=lambda: 1 / 0), once=True).join() == 0

    job = queue.job(job_id)
    assert job is not None
    assert job["last_error"].startswith("ZeroDivisionError")
    assert queue.locks() == 0


def test_a_drained_pool_has_not_listened(queue: Queue, make_pool: MakePool) -> None:
    pool = make_pool(register(), once=True)
    pool.listener.listening.watch()
    assert Running(pool).join() == 0
    with pytest.raises(TimeoutError):
        pool.listener.listening.wait(within=0)


def test_every_connection_is_made_anew_when_all_are_cut(
    queue: Queue, start_pool: StartPool
) -> None:
    ran: list[int] = []
    running = start_pool(register(task=lambda n: ran.append(n)))
    for n in range(4):
        for part in ("fetcher", "completer", "listener"):
            queue.kill(part)
        running.pool.listener.listening.wait()
        queue.add("task", {"n": n})
        all_done(queue)

    assert ran == [0, 1, 2, 3]
    assert running.stop() == 0


def test_tasks_of_other_workers_are_left_alone(queue: Queue, start_pool: StartPool) -> None:
    foreign = queue.add("served_elsewhere")
    before = queue.job(foreign)
    assert start_pool(register(task=lambda: None), once=True).join() == 0

    assert queue.job(foreign) == before


def test_each_start_has_an_owner_of_its_own() -> None:
    owners = {new_worker_id() for _ in range(100)}

    assert len(owners) == 100
    assert all(owner.startswith("django:") and len(owner) <= 100 for owner in owners)


def test_an_owner_fits_whatever_the_host_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "h\0ö " * 100)

    assert len(new_worker_id()) <= 100
    assert new_worker_id().isprintable()


def test_a_schema_that_is_not_there_is_named_with_the_way_out(make_pool: MakePool) -> None:
    pool = make_pool(register(), schema="not there")

    with pytest.raises(SchemaConflict, match=r"'not there'.*migrate graphile_worker"):
        pool.check()


def test_the_schemas_revision_is_told(make_pool: MakePool) -> None:
    revision, functions = make_pool(register()).check()

    assert revision == 20
    assert functions is not None
