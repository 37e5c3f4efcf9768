"""`manage.py graphile_worker` in a process of its own: signals, exit codes, what stays locked."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from tests.conftest import Connect
from tests.doors.programs import PROGRAM, ROOT, WITHIN, Start, has_backends, has_begun, no_backends
from tests.doors.programs import start as start
from tests.waiting import eventually
from tests.worker.conftest import queue as queue
from tests.worker.tools import Queue


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_lets_the_running_job_end(
    queue: Queue, connect: Connect, start: Start, number: signal.Signals
) -> None:
    holder = connect()
    holder.execute("select pg_advisory_lock(1)")
    queue.add("wait_for_lock", {"number": 1}, queue_name="lane")
    next_one = queue.add("wait_for_lock", {"number": 1}, queue_name="lane")
    program = start("--concurrency", "2")
    eventually(has_begun(queue, 1, granted=False), WITHIN)

    program.process.send_signal(number)
    # It has stopped to listen: it is on its way out, but for the job.
    eventually(lambda: no_backends(queue, "listener"), WITHIN)
    assert program.process.poll() is None
    holder.execute("select pg_advisory_unlock(1)")

    code, said = program.wait()
    assert code == 0, said
    assert [(job["id"], job["attempts"]) for job in queue.jobs()] == [(next_one, 0)]
    assert queue.locks() == 0


@pytest.mark.parametrize("task", ["wait_for_lock", "wait_for_ever"])
def test_the_second_signal_fails_the_running_job_and_ends_the_process(
    queue: Queue, connect: Connect, start: Start, task: str
) -> None:
    if waits := task == "wait_for_lock":
        holder = connect()
        holder.execute("select pg_advisory_lock(1)")
    job_id = queue.add(task, {"number": 1}, queue_name="lane")
    program = start()
    eventually(has_begun(queue, 1, granted=not waits), WITHIN)

    program.process.terminate()
    eventually(lambda: no_backends(queue, "listener"), WITHIN)
    program.process.terminate()

    code, said = program.wait()
    assert code == 1, said
    assert f"Job {job_id} ({task}) was still running" in said
    job = queue.job(job_id)
    assert job is not None
    assert job["last_error"].startswith("WorkerStopped: ")
    assert queue.locks() == 0


def test_a_reader_that_is_gone_changes_neither_the_work_nor_the_exit_code(
    queue: Queue, dsn: str, schema: str
) -> None:
    queue.add("tell_process")
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as broken:
        ended = subprocess.run(
            [*PROGRAM, "graphile_worker", "--once"],
            cwd=ROOT,
            env={**os.environ, "DATABASE_URL": dsn, "GRAPHILE_WORKER_SCHEMA": schema},
            stdin=subprocess.DEVNULL,
            stdout=broken,
            stderr=subprocess.PIPE,
            timeout=WITHIN,
            check=False,
        )

    assert (ended.returncode, b"Traceback" in ended.stderr) == (0, False), ended.stderr.decode()
    (told,) = queue.jobs()  # what that job has left
    assert told["payload"].keys() == {"pid"}


def test_a_signal_while_idle_ends_it_at_once(queue: Queue, start: Start) -> None:
    program = start("--poll-interval", "3600")
    eventually(lambda: has_backends(queue, "listener"), WITHIN)
    program.process.terminate()

    code, said = program.wait()
    assert code == 0, said
    assert queue.locks() == 0


def test_a_process_can_drain_and_exit(queue: Queue, start: Start) -> None:
    for _ in range(30):
        queue.add("wait_for_lock", {"number": 2})
    code, said = start("--once", "-v", "2").wait()

    assert code == 0, said
    assert said.count("was completed in attempt 1 of 25") == 30
    assert queue.jobs() == []
    assert queue.locks() == 0


def test_a_wrong_flag_ends_the_process_with_an_error(queue: Queue, start: Start) -> None:
    code, said = start("--concurrency", "0").wait()

    assert code == 1
    assert "CommandError: --concurrency must be an integer from 1 to 1000, not 0." in said


def test_a_database_that_cannot_be_reached_ends_it_with_an_error(start: Start) -> None:
    code, said = start(DATABASE_URL="postgresql://nobody@127.0.0.1:1/nowhere").wait()

    assert code == 1
    assert "The database 'default' said: " in said
    assert "Traceback" not in said
