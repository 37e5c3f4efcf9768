"""`--processes`: workers in processes of their own under one that watches over them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.conftest import Connect
from tests.doors.programs import (
    WITHIN,
    Program,
    Start,
    has_workers,
    is_gone,
    no_backends,
    workers,
)
from tests.doors.programs import start as start
from tests.waiting import eventually
from tests.worker.conftest import queue as queue
from tests.worker.tools import Queue, Session

# Nobody declares anybody dead within a test by having waited: what is freed was freed at once.
PATIENT = ("--heartbeat", "1", "--stale-after", "3600")

Hold = Callable[[int], list[int]]


@pytest.fixture
def holder(connect: Connect) -> Session:
    """Holds the lock that the jobs of `hold` wait for."""
    holder = connect()
    holder.execute("select pg_advisory_lock(1)")
    return holder


@pytest.fixture
def hold(queue: Queue, holder: Session) -> Hold:
    """Add jobs that run until `release`; each with a named queue of its own. Returns their ids."""
    return lambda count: [
        queue.add("wait_for_lock", {"number": 1}, queue_name=f"lane {number}")
        for number in range(count)
    ]


@pytest.fixture
def release(holder: Session) -> Callable[[], object]:
    """Let the jobs of `hold` end."""
    return lambda: holder.execute("select pg_advisory_unlock(1)")


def are_running(queue: Queue, count: int) -> Callable[[], list[dict[str, Any]]]:
    """So many jobs wait in their tasks for the lock."""

    def running() -> list[dict[str, Any]]:
        waiting = queue.query(
            "select pid from pg_locks where locktype = 'advisory' and objid = 1 and not granted"
            " and database = (select oid from pg_database where datname = current_database())"
        )
        assert len(waiting) == count, waiting
        return [job for job in queue.jobs() if job["locked_by"] is not None]

    return running


def begin(
    start: Start, queue: Queue, *flags: str, count: int = 2
) -> tuple[Program, dict[str, int]]:
    """Start two processes of one slot each, with jobs that `hold` has made."""
    program = start("--processes", "2", "--concurrency", "1", "--prefetch", "0", *PATIENT, *flags)
    eventually(are_running(queue, count), WITHIN)
    return program, eventually(has_workers(queue, 2), WITHIN)


def test_each_process_is_a_worker_and_the_first_signal_lets_them_end(
    queue: Queue, start: Start, hold: Hold, release: Callable[[], object]
) -> None:
    hold(2)
    program, found = begin(start, queue)
    assert {job["locked_by"] for job in queue.jobs()} == set(found)
    assert program.process.pid not in found.values()
    assert "slots     1 in each of 2 processes" in program.said()

    program.process.terminate()
    eventually(lambda: no_backends(queue, "listener"), WITHIN)
    assert program.process.poll() is None
    release()
    code, said = program.wait()

    assert code == 0, said
    assert (queue.jobs(), queue.locks(), workers(queue)) == ([], 0, {})
    assert said.count("1 jobs completed, 0 failed, 0 given back") == 2
    for pid in found.values():
        is_gone(pid)


def test_the_second_signal_fails_what_runs(queue: Queue, start: Start, hold: Hold) -> None:
    hold(2)
    program, _ = begin(start, queue)
    program.process.terminate()
    eventually(lambda: no_backends(queue, "listener"), WITHIN)
    program.process.terminate()
    code, said = program.wait()

    assert code == 1, said
    assert all(job["last_error"].startswith("WorkerStopped: ") for job in queue.jobs())
    assert (queue.locks(), workers(queue)) == (0, {})


@pytest.mark.parametrize("who", ["group", "each"])
def test_a_signal_that_reaches_all_of_them_counts_once(
    queue: Queue, start: Start, hold: Hold, release: Callable[[], object], who: str
) -> None:
    """As Ctrl-C in a terminal, and as a service manager that stops each process of a unit."""
    hold(2)
    program, found = begin(start, queue)
    if who == "each":
        for pid in (*found.values(), program.process.pid):
            os.kill(pid, signal.SIGTERM)
    else:
        os.killpg(program.process.pid, signal.SIGINT)
    eventually(lambda: no_backends(queue, "listener"), WITHIN)
    release()
    code, said = program.wait()

    assert code == 0, said
    assert queue.jobs() == [], said


def test_what_a_killed_process_had_is_freed_at_once_and_another_takes_its_place(
    queue: Queue, start: Start, hold: Hold, release: Callable[[], object]
) -> None:
    ids = hold(2)
    program, found = begin(start, queue)
    victim = next(job for job in queue.jobs() if job["id"] == ids[0])["locked_by"]
    os.kill(found[victim], signal.SIGKILL)

    def freed() -> None:
        job = queue.job(ids[0])
        assert job is not None
        assert job["locked_by"] != victim
        assert "WorkerDied" in job["last_error"]
        assert job["attempts"] in (1, 2)  # it may run again already
        assert queue.queue("lane 0")["locked_by"] != victim

    eventually(freed, WITHIN)
    now = eventually(has_workers(queue, 2), WITHIN)
    assert len(now.keys() & found.keys()) == 1
    assert f"Process {found[victim]} ended with SIGKILL; another one starts in" in program.said()

    release()
    eventually(lambda: no_jobs(queue), WITHIN)
    program.process.terminate()
    code, said = program.wait()
    assert code == 0, said
    assert queue.locks() == 0


def no_jobs(queue: Queue) -> None:
    assert queue.jobs() == []


def test_processes_whose_parent_was_killed_stop_gently(
    queue: Queue, start: Start, hold: Hold, release: Callable[[], object]
) -> None:
    hold(2)
    program, found = begin(start, queue)
    program.process.kill()
    program.wait_for("The process that started this worker is gone; the worker stops.")
    eventually(lambda: no_backends(queue, "listener"), WITHIN)
    release()
    for pid in found.values():
        eventually(partial(is_gone, pid), WITHIN)

    assert (queue.jobs(), queue.locks(), workers(queue)) == ([], 0, {}), program.said()


def test_a_task_that_holds_the_interpreter_is_no_death(queue: Queue, start: Start) -> None:
    """The parent beats for the process, which cannot; its neighbour would declare it dead."""
    job_id = queue.add("hold_interpreter", {"seconds": 4})
    program = start(
        *("--processes", "2", "--concurrency", "1"),
        *("--heartbeat", "0.25", "--stale-after", "1.5"),
    )

    def done() -> None:
        job = queue.job(job_id)
        assert job is None or job["last_error"] is None, job
        assert job is None

    eventually(done, WITHIN)
    program.process.terminate()
    code, said = program.wait()
    assert code == 0, said
    assert "1 jobs completed" in said
    assert "dead" not in said


@pytest.mark.parametrize(("task", "expected"), [("tell_process", 0), ("die", 1)])
def test_drained_processes_are_not_started_again(
    queue: Queue, start: Start, task: str, expected: int
) -> None:
    queue.add(task, max_attempts=1)
    code, said = start("--processes", "2", "--once", *PATIENT).wait()

    assert code == expected, said
    assert queue.locks() == 0
    if task == "die":
        (job,) = queue.jobs()
        assert (job["attempts"], job["locked_by"]) == (1, None)
        assert "WorkerDied" in job["last_error"]


def test_a_process_that_has_run_its_jobs_is_replaced(queue: Queue, start: Start) -> None:
    for _ in range(4):
        queue.add("tell_process")
    program = start("--processes", "2", "--concurrency", "1", "--max-jobs", "1", *PATIENT)

    def told() -> set[int]:
        pids = {
            row["payload"]["pid"]
            for row in queue.query("select payload from {jobs}")
            if "pid" in row["payload"]
        }
        assert len(pids) == 4, pids
        return pids

    eventually(told, WITHIN)
    eventually(has_workers(queue, 2), WITHIN)
    program.process.terminate()
    code, said = program.wait()
    assert code == 0, said
    assert queue.locks() == 0


def test_what_is_wrong_for_all_is_told_once(start: Start) -> None:
    code, said = start("--processes", "3", GRAPHILE_WORKER_SCHEMA="not there").wait()

    assert code == 1
    assert said.count("run manage.py migrate graphile_worker") == 1
    assert "Traceback" not in said
