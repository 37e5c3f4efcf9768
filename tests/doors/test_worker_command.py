"""`manage.py graphile_worker`: its flags, what it says, and how it takes signals."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings

from django_graphile_worker.registry import Registry
from tests.conftest import Connect
from tests.waiting import eventually
from tests.worker.conftest import queue as queue
from tests.worker.tools import Queue, register

# Generous: a process starts in a second, but not on a machine that is busy with other tests.
WITHIN = 60
ROOT = Path(__file__).resolve().parents[2]
PROGRAM = [sys.executable, "-W", "error", "-m", "tests.doors.worker_program"]
COMMAND = "django_graphile_worker.management.commands.graphile_worker"

Use = Callable[[Registry], None]


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Use:
    """Let the command serve these tasks."""
    return lambda registry: monkeypatch.setattr(f"{COMMAND}.registry", registry)


def once(**options: Any) -> str:
    out = StringIO()
    call_command("graphile_worker", once=True, stdout=out, stderr=StringIO(), **options)
    return out.getvalue()


@pytest.mark.parametrize(
    ("option", "value", "flag"),
    [
        ("concurrency", 0, "--concurrency"),
        ("concurrency", 100_000, "--concurrency"),
        ("concurrency", "many", "--concurrency"),
        ("poll_interval", 0, "--poll-interval"),
        ("poll_interval", -1.0, "--poll-interval"),
        ("poll_interval", float("nan"), "--poll-interval"),
        ("poll_interval", float("inf"), "--poll-interval"),
        ("database", "nowhere", "--database"),
    ],
)
def test_a_flag_out_of_bounds_is_named(option: str, value: object, flag: str) -> None:
    with pytest.raises(CommandError, match=rf"{flag} must be .*, not {value!r}\."):
        once(**{option: value})


@pytest.mark.parametrize("flag", ["--concurrency", "--poll-interval"])
def test_a_flag_that_is_no_number_is_named(flag: str) -> None:
    with pytest.raises(CommandError, match=flag):
        call_command("graphile_worker", flag, "many")


def test_it_says_what_it_serves(queue: Queue, use: Use) -> None:
    use(register(b=lambda: None, a=lambda: None))
    said = once(concurrency=3, poll_interval=1.5)

    assert re.search(r"^Worker django:\S+$", said, re.MULTILINE)
    assert f"database  default, schema {queue.schema} (revision 20, functions " in said
    assert "slots     3, looks for jobs every 1.5 s" in said
    assert "tasks     a, b" in said


def test_it_warns_when_there_is_nothing_to_serve(queue: Queue, use: Use) -> None:
    use(register())

    assert "tasks     none" in once()


def test_a_flag_beats_the_setting_and_the_setting_the_default(queue: Queue, use: Use) -> None:
    use(register())
    settings: dict[str, Any] = {"SCHEMA": queue.schema}
    with override_settings(GRAPHILE_WORKER=settings):
        assert "slots     10, looks for jobs every 2 s" in once()
    settings |= {"CONCURRENCY": 4, "POLL_INTERVAL": 5}
    with override_settings(GRAPHILE_WORKER=settings):
        assert "slots     4, looks for jobs every 5 s" in once()
        assert "slots     7, looks for jobs every 9 s" in once(concurrency=7, poll_interval=9.0)


def test_a_wrong_setting_is_told_as_an_error_of_the_command(queue: Queue) -> None:
    with (
        override_settings(GRAPHILE_WORKER={"CONCURRENCY": 0}),
        pytest.raises(CommandError, match="CONCURRENCY"),
    ):
        once()


def test_a_schema_that_is_not_there_is_told_with_the_way_out(queue: Queue, use: Use) -> None:
    use(register())
    with (
        override_settings(GRAPHILE_WORKER={"SCHEMA": "not there"}),
        pytest.raises(CommandError, match="migrate graphile_worker"),
    ):
        once()


def test_it_drains_the_queue(queue: Queue, use: Use) -> None:
    ran: list[int] = []
    for n in range(20):
        queue.add("task", {"n": n})
    use(register(task=lambda n: ran.append(n)))
    once()

    assert sorted(ran) == list(range(20))
    assert queue.jobs() == []


def test_it_works_off_the_main_thread(queue: Queue, use: Use) -> None:
    ran: list[int] = []
    errors: list[BaseException] = []
    queue.add("task", {"n": 1})
    use(register(task=lambda n: ran.append(n)))

    def work() -> None:
        try:
            once()
        except BaseException as error:  # noqa: BLE001 - told by the test
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(WITHIN)
    assert (ran, errors) == ([1], [])


@pytest.mark.parametrize(
    ("verbosity", "level"), [(0, logging.ERROR), (1, logging.INFO), (2, logging.DEBUG)]
)
def test_verbosity_sets_the_loggers_level(
    queue: Queue, use: Use, verbosity: int, level: int
) -> None:
    logger = logging.getLogger("graphile_worker")
    before, levels = logger.level, []
    queue.add("task")
    use(register(task=lambda: levels.append(logger.level)))
    said = once(verbosity=verbosity)

    assert levels == [level]
    assert logger.level == before
    assert bool(said) is (verbosity > 0)


def test_former_signal_handlers_are_put_back(queue: Queue, use: Use) -> None:
    inside: list[Any] = []
    queue.add("task")
    use(register(task=lambda: inside.append(signal.getsignal(signal.SIGTERM))))
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    once()

    assert inside[0] not in before
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


class Program:
    """The command in a process of its own."""

    def __init__(self, dsn: str, schema: str, *arguments: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            [*PROGRAM, "graphile_worker", *arguments],
            cwd=ROOT,
            env={
                **os.environ,
                "DATABASE_URL": dsn,
                "GRAPHILE_WORKER_SCHEMA": schema,
                "PYTHONDEVMODE": "1",
                **environment,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait(self) -> tuple[int, str]:
        out, error = self.process.communicate(timeout=WITHIN)
        return self.process.returncode, out + error


Start = Callable[..., Program]


@pytest.fixture
def start(dsn: str, schema: str) -> Iterator[Start]:
    programs: list[Program] = []

    def start(*arguments: str, **environment: str) -> Program:
        programs.append(Program(dsn, schema, *arguments, **environment))
        return programs[-1]

    yield start
    for program in programs:
        if program.process.poll() is None:
            program.process.kill()
        program.process.communicate()


def has_begun(queue: Queue, number: int, *, granted: bool) -> Callable[[], None]:
    """A job's task waits for an advisory lock, or holds it: a locked row could still be unbegun."""

    def begun() -> None:
        assert queue.query(
            "select pid from pg_locks where locktype = 'advisory' and objid = %s and granted = %s"
            " and database = (select oid from pg_database where datname = current_database())",
            [number, granted],
        )

    return begun


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


def no_backends(queue: Queue, part: str) -> None:
    assert queue.backends(part) == []


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


def test_a_signal_while_idle_ends_it_at_once(queue: Queue, start: Start) -> None:
    program = start("--poll-interval", "3600")
    eventually(lambda: has_backends(queue, "listener"), WITHIN)
    program.process.terminate()

    code, said = program.wait()
    assert code == 0, said
    assert queue.locks() == 0


def has_backends(queue: Queue, part: str) -> None:
    assert queue.backends(part) != []


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
