"""A worker, in a process of its own, outlives its database, and goes on as soon as it is back.

Each of these has a server of its own: it is stopped, restarted, made read-only.
"""

from __future__ import annotations

import os
import random
import re
import signal
import time
from collections.abc import Callable, Iterator

import pytest

from tests.doors.programs import Program
from tests.waiting import eventually
from tests.worker.clusters import ROLE, OwnServer
from tests.worker.clusters import _server as _server
from tests.worker.clusters import own_server as own_server
from tests.worker.tools import Queue

WITHIN = 30

# After the end of an outage a new job has to have run within so many seconds.
SOON = 3.0

# How long the long outage lasts, in seconds: half a minute where there is time for it.
OUTAGE = float(os.environ.get("OUTAGE_SECONDS", "4"))

StartWorker = Callable[..., Program]


@pytest.fixture
def start_worker(own_server: OwnServer, schema: str) -> Iterator[StartWorker]:
    programs: list[Program] = []

    def start_worker(*arguments: str) -> Program:
        programs.append(Program(own_server.url, schema, *arguments))
        return programs[-1]

    yield start_worker
    for program in programs:
        program.close()


def run_one(queue: Queue) -> float:
    """Add a job and wait until it has run; returns how long that took, in seconds."""
    queue.query("delete from {jobs}")
    began = time.monotonic()
    queue.add("tell_process")

    def told() -> None:
        jobs = queue.query(
            "select id from {jobs} where task_id ="
            " (select id from {tasks} where identifier = 'told')"
        )
        assert jobs != []

    eventually(told, WITHIN)
    took = time.monotonic() - began
    eventually(lambda: _is_true(queue.locks() == 0), WITHIN)  # and it is written down
    return took


def warnings(program: Program) -> list[str]:
    return re.findall("The .* will try again: .*", program.said())


def ends_well(program: Program) -> str:
    program.process.send_signal(signal.SIGTERM)
    code, said = program.wait()
    assert code == 0, said
    return said


def test_terminated_backends_and_a_crash_of_the_server(
    own_server: OwnServer, start_worker: StartWorker, schema: str
) -> None:
    chance = random.Random(4711)
    queue = own_server.queue(schema)
    program = start_worker()
    run_one(queue)

    def backends() -> dict[int, str]:
        rows = queue.query(
            "select pid, application_name as name from pg_stat_activity"
            " where application_name like 'graphile_worker %'"
        )
        return {row["pid"]: row["name"].split()[1] for row in rows}

    def all_there() -> None:
        assert set(backends().values()) >= {"fetcher", "completer", "rescuer", "listener"}

    def any_of_them() -> int:
        found = sorted(backends())  # all of them may be away just then
        assert found
        return chance.choice(found)

    eventually(all_there, WITHIN)
    for _ in range(20):
        queue.query("select pg_terminate_backend(%s, 5000)", [eventually(any_of_them, WITHIN)])
    assert run_one(queue) <= SOON

    own_server.stop("immediate")
    down = time.monotonic()
    eventually(lambda: _is_true(time.monotonic() - down >= OUTAGE), WITHIN)
    assert program.process.poll() is None
    own_server.start()
    took = run_one(own_server.queue(schema))
    assert took <= SOON, f"{took:.1f} s"
    assert program.process.poll() is None

    def all_work_again() -> None:  # each part comes back in its own time; the last one tells
        assert "The database can be worked with again" in program.said()

    eventually(all_work_again, WITHIN)
    said = ends_well(program)
    assert len(said.splitlines()) <= 60, said
    assert "more such errors since" in said
    queue = own_server.queue(schema)
    assert queue.query("select pid from {workers} where dead_at is null and pid > 1") == []


def _is_true(fact: bool) -> None:
    assert fact


def test_a_server_that_may_only_read_for_a_while(
    own_server: OwnServer, start_worker: StartWorker, schema: str
) -> None:
    program = start_worker()
    run_one(own_server.queue(schema))
    own_server.become_standby()

    def complained() -> None:
        assert any("read-only" in line or "recovery" in line for line in warnings(program))

    eventually(complained, WITHIN)
    lines = len(warnings(program))
    began = time.monotonic()
    eventually(lambda: _is_true(time.monotonic() - began >= 3), WITHIN)
    assert len(warnings(program)) - lines <= 4
    assert program.process.poll() is None
    own_server.promote()
    assert run_one(own_server.queue(schema)) <= SOON
    ends_well(program)


def test_no_connection_left_for_a_while(
    own_server: OwnServer, start_worker: StartWorker, schema: str
) -> None:
    queue = own_server.queue(schema)
    program = start_worker()
    run_one(queue)
    with own_server.admin() as admin:
        admin.execute(f"alter role {ROLE} connection limit 1")  # the test's own is the one
        queue.query(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            " where application_name like 'graphile_worker %'"
        )
        eventually(lambda: _is_true(any("too many" in line for line in warnings(program))), WITHIN)
        assert program.process.poll() is None
        admin.execute(f"alter role {ROLE} connection limit -1")
    assert run_one(queue) <= SOON
    ends_well(program)


def test_a_server_that_is_away_at_the_stop(
    own_server: OwnServer, start_worker: StartWorker, schema: str
) -> None:
    program = start_worker()
    run_one(own_server.queue(schema))
    own_server.stop("immediate")
    program.process.send_signal(signal.SIGTERM)
    program.wait()
    own_server.start()

    # Nothing was running: what is left is a row of a worker that will be silent.
    queue = own_server.queue(schema)
    assert queue.locks() == 0


def test_a_role_that_is_changed_meanwhile(
    own_server: OwnServer, start_worker: StartWorker, schema: str
) -> None:
    queue = own_server.queue(schema)
    program = start_worker()
    run_one(queue)
    with own_server.admin() as admin:
        admin.execute(f"alter role {ROLE} set default_transaction_isolation = serializable")
        admin.execute(f"alter role {ROLE} set statement_timeout = '200ms'")
    queue.query(
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
        " where application_name like 'graphile_worker %'"
    )
    assert run_one(queue) <= SOON
    assert own_server.connect().execute("show statement_timeout").fetchone() == ("200ms",)
    ends_well(program)
