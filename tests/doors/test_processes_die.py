"""`--processes`: what happens when one of them dies, or only seems to."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial

from tests.doors.held import PATIENT, Hold, begin
from tests.doors.held import hold as hold
from tests.doors.held import holder as holder
from tests.doors.held import release as release
from tests.doors.programs import (
    WITHIN,
    Start,
    has_begun,
    has_workers,
    is_gone,
    no_backends,
    workers,
)
from tests.doors.programs import start as start
from tests.waiting import eventually
from tests.worker.conftest import queue as queue
from tests.worker.tools import Queue


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
    job_id = queue.add("hold_interpreter", {"number": 1, "seconds": 4})
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


def test_the_third_signal_kills_what_cannot_hear_it(queue: Queue, start: Start) -> None:
    job_id = queue.add("hold_interpreter", {"number": 1, "seconds": 600}, queue_name="lane")
    program = start("--processes", "2", *PATIENT)
    eventually(has_begun(queue, 1, granted=True), WITHIN)
    # One at a time: two that come before the first was heard are one.
    for heard in ("The worker's processes stop.", "The worker's processes stop at once."):
        program.process.terminate()
        program.wait_for(heard)
    program.process.terminate()
    code, said = program.wait()

    assert code == 1, said
    assert "was told to stop for the third time; it is killed." in said
    job = queue.job(job_id)
    assert job is not None
    assert "WorkerDied" in job["last_error"]
    assert queue.locks() == 0
