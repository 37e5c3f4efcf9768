"""Links: what roles and servers have set is borne, and a loss is got over with patience."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.db import connections

from django_graphile_worker.statements import sessions
from django_graphile_worker.statements.base import Statement
from django_graphile_worker.statements.worker import set_up_worker
from django_graphile_worker.worker import connections as module
from django_graphile_worker.worker.connections import FIRST_PAUSE, LONGEST_PAUSE, PASSING, Link
from tests.conftest import Connect
from tests.fresh import aliased
from tests.waiting import eventually
from tests.worker.conftest import StartPool
from tests.worker.tools import Queue, register

WITHIN = 15

# Each as the default of a role could be. `-c` in the options has the same effect.
ODD = {
    "serializable": "-c default_transaction_isolation=serializable",
    "repeatable read": "-c default_transaction_isolation=repeatable\\ read",
    "read-only": "-c default_transaction_read_only=on",
    "statement timeout": "-c statement_timeout=100ms",
    "lock timeout": "-c lock_timeout=10ms",
    "idle timeouts": "-c idle_in_transaction_session_timeout=100ms",
    "no search path": "-c search_path=",
    "odd dates": "-c DateStyle=German -c IntervalStyle=sql_standard -c TimeZone=Asia/Kathmandu",
    "odd strings": "-c standard_conforming_strings=off -c bytea_output=escape",
    "odd arrays": "-c array_nulls=off",
    "odd planner": "-c enable_indexscan=off -c enable_nestloop=off",
}


@pytest.fixture(params=ODD)
def odd(request: pytest.FixtureRequest, transactional_db: None) -> Iterator[str]:
    """An alias whose sessions have odd defaults."""
    with aliased("odd", **as_default({"options": ODD[request.param]})):
        yield "odd"


def as_default(options: dict[str, Any]) -> dict[str, Any]:
    of = connections["default"].settings_dict
    return {"NAME": of["NAME"], "OPTIONS": {**of["OPTIONS"], **options}}


def show(link: Link, name: str) -> str:
    text = "select current_setting(%(name)s)"
    return link.run(Statement("show", text, {"name": name}, lambda rows: str(rows[0][0])))


def test_a_worker_works_whatever_the_defaults_are(
    queue: Queue, start_pool: StartPool, odd: str
) -> None:
    ran: list[Any] = []

    def task(n: int) -> None:
        ran.append(n)
        if n == 2 and ran.count(2) == 1:
            raise ValueError("once")

    pool = start_pool(register(task), database=odd, poll_interval=0.05, heartbeat=0.1).pool
    pool.rescuer.beaten.watch()
    queue.add("task", {"n": 1}, job_key="k")
    failing = queue.add("task", {"n": 2}, queue_name="lane")
    queue.add("task", {"n": 3}, queue_name="lane")

    def failed() -> None:
        job = queue.job(failing)
        assert job is not None
        assert job["last_error"] is not None
        assert job["locked_by"] is None

    eventually(failed, WITHIN)
    queue.query("update {jobs} set run_at = now() where id = %s", [failing])
    eventually(lambda: _is_empty(queue), WITHIN)
    assert sorted(ran) == [1, 2, 2, 3]
    pool.rescuer.beaten.wait()


def _is_empty(queue: Queue) -> None:
    assert queue.jobs() == []
    assert queue.locks() == 0


def test_serializable_by_default_many_workers_do_not_disturb_each_other(
    queue: Queue, start_pool: StartPool, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[int] = []
    for n in range(300):
        queue.add("task", {"n": n}, queue_name=f"lane {n % 3}" if n % 2 else None)
    with aliased("odd", **as_default({"options": ODD["serializable"]})):
        pools = [
            start_pool(
                register(task=lambda n: ran.append(n)),
                database="odd",
                concurrency=4,
                poll_interval=0.02,
            )
            for _ in range(2)
        ]
        eventually(lambda: _is_empty(queue), WITHIN)
        assert [running.stop() for running in pools] == [0, 0]
    assert sorted(ran) == list(range(300))
    assert "could not serialize" not in caplog.text


@pytest.mark.parametrize("direct", [True, False], ids=["direct", "as through a pooler"])
def test_statements_are_read_committed_and_may_write_and_take_their_time(
    transactional_db: None, direct: bool
) -> None:
    options = " ".join(
        [ODD["serializable"], ODD["read-only"], ODD["statement timeout"], ODD["idle timeouts"]]
    )
    with aliased("odd", **as_default({"options": options})):
        link = Link("odd", "test")
        assert link.connection()
        assert link.direct
        link.direct = direct
        if not direct:  # as it was before it was settled
            link.connection().execute("reset all")
        for _ in range(2):
            assert show(link, "transaction_isolation") == "read committed"
            assert show(link, "transaction_read_only") == "off"
            assert show(link, "statement_timeout") == "1min"
            assert show(link, "idle_in_transaction_session_timeout") == "1min"
        with link.transaction():
            assert show(link, "transaction_isolation") == "read committed"
            assert show(link, "statement_timeout") == "1min"
        assert link.run_prepared(set_up_worker, sessions.get_backend())
        link.close()


def test_what_is_harmless_stays_as_it_is(transactional_db: None) -> None:
    link = Link("default", "test")
    assert show(link, "statement_timeout") == "0"
    link.close()


@pytest.fixture
def link(transactional_db: None) -> Iterator[Link]:
    link = Link("default", "test")
    yield link
    link.close()


def test_pauses_grow_and_differ_and_end_with_success(link: Link) -> None:
    error = psycopg.OperationalError("away")
    for longest in (FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE):
        assert longest / 2 <= link.pause(error) <= longest
    pauses = {link.pause(error) for _ in range(20)}
    assert len(pauses) == 20
    assert all(pause <= LONGEST_PAUSE for pause in pauses)
    link.run(sessions.get_backend())
    assert link.pause(error) <= FIRST_PAUSE


def test_a_cut_connection_is_made_anew(link: Link, queue: Queue) -> None:
    first = link.run(sessions.get_backend())
    queue.query("select pg_terminate_backend(%s, 5000)", [first])
    with pytest.raises(PASSING) as caught:
        link.run(sessions.get_backend())
    link.pause(caught.value)
    assert link.run(sessions.get_backend()) != first


def test_a_server_that_may_only_read_is_looked_for_anew(link: Link) -> None:
    # Behind the same name there may be another one by now.
    before = link.run(sessions.get_backend())
    link.pause(psycopg.errors.ReadOnlySqlTransaction("cannot execute UPDATE"))
    assert link.run(sessions.get_backend()) != before
    link.pause(psycopg.errors.SerializationFailure("once more"))
    assert link.run(sessions.get_backend()) != before


@pytest.mark.parametrize(
    "state",
    [
        "08006",
        "25006",
        "25P03",
        "40001",
        "40P01",
        "53300",
        "55P03",
        "57014",
        "57P01",
        "57P03",
        "57P05",
        "58030",
    ],
)
def test_what_may_pass_does(state: str) -> None:
    assert issubclass(psycopg.errors.lookup(state), PASSING)


@pytest.mark.parametrize("state", ["42P01", "42501", "22P02", "23505", "25P02", "XX000"])
def test_a_fault_does_not_pass(state: str) -> None:
    assert not issubclass(psycopg.errors.lookup(state), PASSING)


def test_a_dead_peer_is_found_out(link: Link, connect: Connect) -> None:
    parameters = link.connection().info.get_parameters()
    assert parameters["keepalives_idle"] == "10"
    assert parameters["tcp_user_timeout"] == "20000"
    with aliased("own", **as_default({"keepalives_idle": 77, "connect_timeout": 3})):
        own = Link("own", "test")
        parameters = own.connection().info.get_parameters()
        own.close()
    assert parameters["keepalives_idle"] == "77"
    assert parameters["connect_timeout"] == "3"
    assert parameters["keepalives_interval"] == str(module.WATCHFUL["keepalives_interval"])
