"""`--processes`: workers in processes of their own under one that watches over them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from tests.doors.held import PATIENT, Hold, begin
from tests.doors.held import hold as hold
from tests.doors.held import holder as holder
from tests.doors.held import release as release
from tests.doors.programs import (
    WITHIN,
    Start,
    has_workers,
    is_gone,
    no_backends,
    workers,
)
from tests.doors.programs import start as start
from tests.waiting import eventually
from tests.worker.conftest import queue as queue
from tests.worker.tools import Queue


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
