"""`--reload`: a file changes; the worker stops as it always does, and starts with the new code."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Connect
from tests.doors.programs import (
    WITHIN,
    Program,
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

MODULE = "tasks_that_change"

Develop = Callable[..., Program]


class File:
    """A module with a task that leaves a job which tells its version."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / f"{MODULE}.py"
        self.write(1)

    def write(self, version: int) -> None:
        self.write_text(
            "from django_graphile_worker import enqueue, task\n\n\n"
            f'@task\ndef tell_version():\n    enqueue("told", {{"version": {version}}})\n'
        )

    def write_text(self, text: str) -> None:
        before = self.path.stat().st_mtime_ns if self.path.exists() else 0
        self.path.write_text(text)
        # Whatever the clock of the disk: it is later, by more than compiled files can tell apart.
        os.utime(
            self.path,
            ns=(before + 2 * 10**9, max(self.path.stat().st_mtime_ns, before + 2 * 10**9)),
        )


@pytest.fixture
def file(tmp_path: Path) -> File:
    return File(tmp_path)


@pytest.fixture
def develop(start: Start, file: File) -> Develop:
    """Start the worker as a developer does, and return once it watches the file."""

    def develop(*flags: str, **environment: str) -> Program:
        program = start(
            *flags,
            **{"DEBUG": "1", **environment},
            PYTHONPATH=str(file.path.parent),
            MODULE_OF_TASKS=MODULE,
            LOG_RELOADER="1",
        )
        watches(program, file)
        return program

    return develop


def watches(program: Program, file: File, times: int = 1) -> None:
    def seen() -> None:
        said = program.said()
        assert said.count(f"File {file.path} first seen") >= times, said

    eventually(seen, WITHIN)


def tells(queue: Queue, version: int) -> None:
    """A job that is added now is run by this version."""
    before = {job["id"] for job in queue.jobs()}
    queue.add("tell_version")

    def told() -> None:
        payloads = [job["payload"] for job in queue.jobs() if job["id"] not in before]
        assert {"version": version} in payloads, payloads

    eventually(told, WITHIN)


def stop(program: Program, queue: Queue) -> str:
    """Ctrl-C, as in a terminal."""
    os.killpg(program.process.pid, signal.SIGINT)
    code, said = program.wait()
    assert code == 0, said
    assert (queue.locks(), workers(queue)) == (0, {}), said
    assert "Traceback" not in said
    return said


def test_a_changed_file_is_run_from_then_on(queue: Queue, develop: Develop, file: File) -> None:
    program = develop()
    tells(queue, 1)
    file.write(2)
    watches(program, file, 2)
    tells(queue, 2)

    said = stop(program, queue)
    assert f"{file.path} has changed; the worker stops and starts again." in said


def test_the_running_job_may_end_before(
    queue: Queue, connect: Connect, develop: Develop, file: File
) -> None:
    holder = connect()
    holder.execute("select pg_advisory_lock(1)")
    job_id = queue.add("wait_for_lock", {"number": 1})
    program = develop()
    eventually(has_begun(queue, 1, granted=False), WITHIN)
    file.write(2)
    eventually(lambda: no_backends(queue, "listener"), WITHIN)

    job = queue.job(job_id)
    assert job is not None
    assert job["locked_by"] in workers(queue)
    holder.execute("select pg_advisory_unlock(1)")
    watches(program, file, 2)
    tells(queue, 2)
    assert queue.job(job_id) is None
    stop(program, queue)


@pytest.mark.parametrize(
    ("whom", "number"),
    [
        ("all", signal.SIGINT),
        ("the first", signal.SIGINT),
        ("the first", signal.SIGTERM),
        ("the child", signal.SIGTERM),
    ],
)
def test_a_signal_ends_it_with_nothing_locked(
    queue: Queue, connect: Connect, develop: Develop, number: signal.Signals, whom: str
) -> None:
    holder = connect()
    holder.execute("select pg_advisory_lock(1)")
    queue.add("wait_for_lock", {"number": 1}, queue_name="lane")
    program = develop()
    eventually(has_begun(queue, 1, granted=False), WITHIN)
    (child,) = eventually(has_workers(queue, 1), WITHIN).values()
    if whom == "all":
        os.killpg(program.process.pid, number)
    else:
        os.kill(program.process.pid if whom == "the first" else child, number)
    eventually(lambda: no_backends(queue, "listener"), WITHIN)
    assert program.process.poll() is None
    holder.execute("select pg_advisory_unlock(1)")
    if whom == "the child":
        # It was asked for itself only, so another takes its place.
        eventually(lambda: is_gone(child), WITHIN)
        eventually(has_workers(queue, 1), WITHIN)
        program.process.terminate()

    code, said = program.wait()
    assert code == 0, said
    assert (queue.jobs(), queue.locks(), workers(queue)) == ([], 0, {})


def test_broken_code_is_tried_again_once_it_is_mended(
    queue: Queue, develop: Develop, file: File
) -> None:
    program = develop()
    file.write_text("def broken(:\n")
    program.wait_for("SyntaxError")
    program.wait_for("The worker cannot start; it is tried again when a file has changed.")
    file.write(3)
    tells(queue, 3)

    os.killpg(program.process.pid, signal.SIGINT)
    code, said = program.wait()
    assert code == 0, said
    assert said.count("Traceback") == 1
    assert queue.locks() == 0


@pytest.mark.parametrize(
    ("flags", "debug"),
    [([], ""), (["--no-reload"], "1"), (["--once"], "1"), (["--max-jobs", "1"], "1")],
)
def test_it_is_off(queue: Queue, start: Start, file: File, flags: list[str], debug: str) -> None:
    for _ in range(2):
        queue.add("tell_process")
    program = start(*flags, DEBUG=debug, LOG_RELOADER="1")

    def told() -> None:
        assert {"pid": program.process.pid} in [job["payload"] for job in queue.jobs()]

    eventually(told, WITHIN)
    if not {"--once", "--max-jobs"} & set(flags):
        program.process.terminate()
    code, said = program.wait()
    assert code == 0, said
    assert "first seen" not in said


def test_it_does_not_go_with_an_end(start: Start) -> None:
    code, said = start("--reload", "--once").wait()
    assert (code, "--reload does not go together with --once" in said) == (1, True)
