"""Death and what only looks like it: pools that others took for dead, processes that are killed."""

from __future__ import annotations

import signal
import threading
import time
from typing import Any

import pytest

from django_graphile_worker.statements import workers as statements
from tests.conftest import Connect
from tests.doors.programs import Start, has_begun, has_workers
from tests.doors.programs import start as start
from tests.waiting import eventually
from tests.worker.conftest import StartPool
from tests.worker.tools import Queue, register, run

WITHIN = 40

# Shortened: a heartbeat of 5 s and 30 s of silence by default. Still long beside the time that a
# process may not get a processor on a busy machine.
SHORT = ("--heartbeat", "0.5", "--stale-after", "4", "--poll-interval", "0.2")


def declare_dead(queue: Queue, name: str | None) -> None:
    assert name is not None
    assert run(queue.session, statements.rescue(schema=queue.schema, worker_ids=[name])).workers


def is_empty(queue: Queue) -> None:
    assert queue.jobs() == []
    assert queue.locks() == 0


def test_a_pool_that_was_declared_dead_drops_its_outcomes_and_goes_on(
    queue: Queue, start_pool: StartPool, caplog: pytest.LogCaptureFixture
) -> None:
    go_on = threading.Event()
    began: list[int] = []

    def task(n: int) -> None:
        began.append(n)
        if len(began) == 1:
            go_on.wait(WITHIN)

    pool = start_pool(register(task), heartbeat=0.05, poll_interval=0.05).pool
    job_id = queue.add("task", {"n": 1}, queue_name="lane")
    eventually(lambda: _equal(began, [1]), WITHIN)
    old = pool.worker_id
    declare_dead(queue, old)

    def has_another_name() -> None:
        assert pool.worker_id not in (None, old)

    eventually(has_another_name, WITHIN)
    row = queue.job(job_id)
    assert row is not None
    assert (row["attempts"], row["locked_by"]) == (1, None)
    assert row["last_error"].startswith(f"WorkerDied: the worker {old} died")

    # The first run ends: that is nobody's business any more.
    queue.query("update {jobs} set run_at = now() + interval '1 h'")
    go_on.set()
    queue.add("task", {"n": 2})
    eventually(lambda: _equal(began, [1, 2]), WITHIN)
    eventually(lambda: _equal([job["id"] for job in queue.jobs()], [job_id]), WITHIN)
    row = queue.job(job_id)
    assert row is not None
    assert (row["attempts"], row["locked_by"]) == (1, None)
    assert f"Job {job_id}" in caplog.text

    queue.query("update {jobs} set run_at = now()")
    eventually(lambda: is_empty(queue), WITHIN)
    assert began == [1, 2, 1]


def _equal(one: object, other: object) -> None:
    assert one == other


def test_what_a_dead_pool_had_not_begun_is_not_begun_under_its_old_name(
    queue: Queue, start_pool: StartPool
) -> None:
    go_on = threading.Event()
    ran: list[int] = []

    def slow(n: int) -> None:
        go_on.wait(WITHIN)
        ran.append(n)

    pool = start_pool(
        register(slow), concurrency=1, heartbeat=0.05, poll_interval=0.05, prefetch=5
    ).pool
    queue.add("slow", {"n": 0})
    eventually(lambda: _equal(pool.executor.held, 1), WITHIN)
    name = pool.worker_id
    # Taken ahead, and not begun: the only slot is busy.
    for n in range(1, 4):
        job_id = queue.add("slow", {"n": n}, run_at="2200-01-01")
        queue.set(job_id, run_at="2000-01-01", locked_by=name, attempts=1)
    queue.query("update {jobs} set locked_at = now() where locked_at is null")
    declare_dead(queue, name)
    queue.query("update {jobs} set run_at = now()")

    def has_another_name() -> None:
        assert pool.worker_id not in (None, name)

    eventually(has_another_name, WITHIN)
    go_on.set()
    eventually(lambda: is_empty(queue), WITHIN)
    # The one that ran when its worker was taken for dead has run twice; the others once.
    assert sorted(ran) == [0, 0, 1, 2, 3]


def test_a_pool_that_stops_says_so_and_beats_until_its_last_job_has_ended(
    queue: Queue, start_pool: StartPool
) -> None:
    go_on = threading.Event()
    running = start_pool(register(task=lambda: go_on.wait(WITHIN)), heartbeat=0.05)
    queue.add("task")
    eventually(lambda: _equal(queue.locks(), 1), WITHIN)
    running.pool.stop()

    def says_so() -> None:
        rows = queue.query("select stopping_at from {workers} where pid <> 1")
        assert [row for row in rows if row["stopping_at"] is not None] != []

    eventually(says_so, WITHIN)
    running.pool.rescuer.beaten.watch()
    for _ in range(3):
        running.pool.rescuer.beaten.wait()
    go_on.set()
    assert running.join() == 0
    assert queue.query("select pid from {workers} where pid <> 1") == []
    is_empty(queue)


def test_a_killed_process_has_its_jobs_run_by_another(
    queue: Queue, connect: Connect, start: Start
) -> None:
    holder = connect()
    holder.execute("select pg_advisory_lock(1)")
    first = start(*SHORT)
    running = queue.add("wait_for_lock", {"number": 1}, queue_name="lane")
    behind = queue.add("wait_for_lock", {"number": 2}, queue_name="lane")
    last_try = queue.add("wait_for_lock", {"number": 1}, max_attempts=1)
    eventually(has_begun(queue, 1, granted=False), WITHIN)
    eventually(lambda: _equal(queue.locks(), 3), WITHIN)
    second = start(*SHORT)
    eventually(has_workers(queue, 2), WITHIN)
    first.process.send_signal(signal.SIGKILL)
    first.process.wait(WITHIN)
    died = time.monotonic()

    # The one behind it in its lane runs without waiting for it.
    eventually(lambda: _equal(queue.job(behind), None), WITHIN)
    row = queue.job(last_try)
    assert row is not None
    assert (row["attempts"], row["locked_by"], row["is_available"]) == (1, None, False)
    assert row["last_error"].startswith("WorkerDied: ")
    row = queue.job(running)
    assert row is not None
    # Freed, the attempt counted; or taken anew since by the other worker.
    assert (row["attempts"], row["locked_by"] is None) in [(1, True), (2, False)]
    holder.execute("select pg_advisory_unlock_all()")
    eventually(lambda: _equal([job["id"] for job in queue.jobs()], [last_try]), WITHIN)
    assert time.monotonic() - died <= 30
    assert queue.locks() == 0
    attempts = queue.query("select job_id, attempt, worker_id from {errors} order by job_id")
    assert [(row["job_id"], row["attempt"]) for row in attempts] == [(running, 1), (last_try, 1)]
    second.process.terminate()
    code, said = second.wait()
    assert code == 0, said
    assert "is dead." in said


def test_a_process_that_was_stopped_and_continued_ends_nothing_that_it_has_lost(
    queue: Queue, connect: Connect, start: Start
) -> None:
    holder = connect()
    holder.execute("select pg_advisory_lock(1)")
    stopped = start(*SHORT, "--concurrency", "1")
    job_id = queue.add("wait_for_lock", {"number": 1}, queue_name="lane")
    eventually(has_begun(queue, 1, granted=False), WITHIN)
    (name,) = has_workers(queue, 1)()
    stopped.process.send_signal(signal.SIGSTOP)
    try:
        successor = start(*SHORT, "--concurrency", "1")

        def taken_over() -> dict[str, Any]:
            row = queue.job(job_id)
            assert row is not None
            assert row["attempts"] == 2
            assert row["locked_by"] not in (None, name)
            return row

        row = eventually(taken_over, WITHIN)
    finally:
        stopped.process.send_signal(signal.SIGCONT)

    # It goes on, finds that it was taken for dead, and takes another name.
    said = stopped.wait_for("was declared dead")
    assert name in said
    eventually(has_workers(queue, 2), WITHIN)
    assert queue.job(job_id) == row
    assert queue.queue("lane")["locked_by"] == row["locked_by"]

    # Both runs end now. Only the successor's counts.
    successor.process.send_signal(signal.SIGSTOP)
    holder.execute("select pg_advisory_unlock(1)")
    stopped.wait_for(f"Job {job_id}")
    assert queue.job(job_id) == row
    assert queue.queue("lane")["locked_by"] == row["locked_by"]
    successor.process.send_signal(signal.SIGCONT)
    eventually(lambda: is_empty(queue), WITHIN)

    successor.process.terminate()
    assert successor.wait()[0] == 0
    queue.add("wait_for_lock", {"number": 3})
    eventually(lambda: is_empty(queue), WITHIN)
    stopped.process.terminate()
    code, said = stopped.wait()
    assert code == 0, said


def test_a_task_that_kills_its_process_runs_as_often_as_it_may_and_no_more(
    queue: Queue, start: Start
) -> None:
    program = start(*SHORT, "--processes", "2", "--concurrency", "1")
    eventually(has_workers(queue, 2), WITHIN)
    deadly = queue.add("die", queue_name="lane", max_attempts=3, priority=-1)
    behind = queue.add("wait_for_lock", {"number": 5}, queue_name="lane")

    def dead_for_good() -> None:
        # Without the pauses between its attempts, which are not what this is about.
        queue.query(
            "update {jobs} set run_at = now() where locked_at is null and id = %s", [deadly]
        )
        row = queue.job(deadly)
        assert row is not None
        assert (row["attempts"], row["locked_by"]) == (3, None)

    eventually(dead_for_good, 2 * WITHIN)
    eventually(lambda: _equal([job["id"] for job in queue.jobs()], [deadly]), WITHIN)
    assert queue.job(behind) is None
    row = queue.job(deadly)
    assert row is not None
    assert not row["is_available"]
    assert "died before it had ended this job" in row["last_error"]
    errors = queue.query("select attempt from {errors} where job_id = %s order by id", [deadly])
    assert [error["attempt"] for error in errors] == [1, 2, 3]
    assert queue.locks() == 0
    program.process.terminate()
    code, said = program.wait()
    assert code == 0, said
    assert said.count("ended with SIGKILL") == 3


def test_an_outage_longer_than_their_patience_is_no_death(
    queue: Queue, start_pool: StartPool
) -> None:
    # As after an outage of a minute: everybody was silent. Who comes back first judges nobody.
    pools = [start_pool(register(), heartbeat=0.2, stale_after=3.0).pool for _ in range(2)]
    eventually(lambda: _equal(None in {pool.worker_id for pool in pools}, False), WITHIN)
    names = {pool.worker_id for pool in pools}
    queue.query(
        "update {workers} set last_beat_at = now() - interval '60 s', watching_since ="
        " now() - interval '1 h' where pid <> 1"
    )
    for pool in pools:
        pool.rescuer.swept.watch()
        for _ in range(3):
            assert pool.rescuer.swept.wait().workers == ()
    assert {pool.worker_id for pool in pools} == names
