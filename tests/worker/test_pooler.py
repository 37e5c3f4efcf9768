"""Through a transaction pooler: no prepared statements, no session state, and all of the work."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from django.db import connections
from psycopg import sql

from django_graphile_worker.statements import sessions as statements
from django_graphile_worker.statements.base import Statement
from django_graphile_worker.statements.worker import set_up_worker
from django_graphile_worker.worker.connections import PASSING, Link
from tests.fresh import aliased
from tests.pgbouncer import Pooler
from tests.waiting import eventually
from tests.worker.conftest import StartPool
from tests.worker.tools import Queue, register

pytestmark = pytest.mark.pgbouncer

WITHIN = 20

MakePooler = Callable[..., Pooler]


@pytest.fixture
def make_pooler(transactional_db: None) -> Iterator[MakePooler]:
    poolers: list[Pooler] = []

    def make_pooler(size: int = 2, **database: Any) -> Pooler:
        pooler = Pooler({**connections["default"].settings_dict, **database}, size)
        poolers.append(pooler)
        pooler.start()
        return pooler

    yield make_pooler
    for pooler in poolers:
        pooler.end()


@pytest.fixture
def pooled(make_pooler: MakePooler) -> Iterator[Pooler]:
    """A pooler with two server connections, and the alias `pooled` that goes through it."""
    pooler = make_pooler()
    with through(pooler):
        yield pooler


def through(pooler: Pooler) -> Any:
    name = connections["default"].settings_dict["NAME"]
    return aliased("pooled", HOST="127.0.0.1", PORT=str(pooler.port), NAME=name)


@pytest.fixture
def link(pooled: Pooler) -> Iterator[Link]:
    link = Link("pooled", "test")
    yield link
    link.close()


def ask(link: Link, text: str) -> Any:
    return link.run(Statement("ask", text, {}, lambda rows: rows[0][0]))


def is_empty(queue: Queue) -> None:
    assert queue.jobs() == []
    assert queue.locks() == 0


def test_a_pooler_is_recognized_and_nothing_stays_in_the_session(link: Link) -> None:
    for _ in range(10):
        link.run_prepared(set_up_worker, statements.get_backend())
    assert not link.direct
    raw = link.connection()
    for _ in range(10):
        row = raw.execute(
            "select current_setting('lock_timeout'), current_setting('enable_sort'),"
            " (select count(*) from pg_prepared_statements)"
        ).fetchone()
        assert row == ("0", "on", 0)


@pytest.mark.parametrize("size", [1, 3])
def test_a_worker_does_all_of_its_work_through_it(
    queue: Queue,
    start_pool: StartPool,
    make_pooler: MakePooler,
    size: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    ran: list[int] = []

    def task(n: int) -> None:
        ran.append(n)
        if n == 5 and ran.count(5) == 1:
            raise ValueError("once")

    ids = {
        n: queue.add(
            "task",
            {"n": n},
            queue_name=f"lane {n % 3}" if n % 2 else None,
            job_key=f"key {n}" if n % 5 == 0 else None,
        )
        for n in range(200)
    }
    with through(make_pooler(size)), caplog.at_level(logging.WARNING, "graphile_worker"):
        running = start_pool(
            register(task),
            database="pooled",
            listen_database=None,
            concurrency=4,
            poll_interval=0.05,
            heartbeat=0.2,
        )
        running.pool.rescuer.beaten.watch()

        def failed_once() -> None:
            job = queue.job(ids[5])
            assert job is not None
            assert job["last_error"] is not None
            assert job["locked_by"] is None

        eventually(failed_once, WITHIN)
        queue.query("update {jobs} set run_at = now() where id = %s", [ids[5]])
        eventually(lambda: is_empty(queue), WITHIN)
        running.pool.rescuer.beaten.wait()
        assert running.stop() == 0
    assert sorted(ran) == sorted([*range(200), 5])
    assert "will try again" not in caplog.text
    assert queue.query("select pid from {workers} where pid <> 1") == []


def test_an_alias_that_goes_past_it_hears_of_new_jobs(
    queue: Queue, start_pool: StartPool, pooled: Pooler
) -> None:
    ran: list[int] = []
    start_pool(
        register(task=lambda n: ran.append(n)),
        database="pooled",
        listen_database="default",
        poll_interval=3_600,
    )
    for n in range(3):
        queue.add("task", {"n": n})
        eventually(lambda: is_empty(queue), WITHIN)
    assert ran == [0, 1, 2]


def test_to_listen_through_it_is_warned_of_and_jobs_are_found_by_polling(
    queue: Queue, start_pool: StartPool, pooled: Pooler, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[int] = []
    start_pool(register(task=lambda n: ran.append(n)), database="pooled", poll_interval=0.1)
    for n in range(3):
        queue.add("task", {"n": n})
        eventually(lambda: is_empty(queue), WITHIN)
    assert ran == [0, 1, 2]
    assert caplog.text.count("leads through a pooler") == 1


def test_it_may_end_and_come_back(queue: Queue, start_pool: StartPool, pooled: Pooler) -> None:
    ran: list[int] = []
    running = start_pool(
        register(task=lambda n: ran.append(n)),
        database="pooled",
        listen_database=None,
        poll_interval=0.05,
        heartbeat=0.1,
    )
    for n in range(3):
        queue.add("task", {"n": n})
        eventually(lambda: is_empty(queue), WITHIN)
        pooled.stop()
        queue.add("task", {"n": n + 10})
        pooled.start()
        eventually(lambda: is_empty(queue), WITHIN)
    assert ran == [0, 10, 1, 11, 2, 12]
    assert running.stop() == 0


@pytest.fixture
def odd_role(queue: Queue) -> Iterator[str]:
    """A role that may do everything, and whose defaults are odd."""
    name = f"test_odd_{queue.session.info.backend_pid}"
    role = sql.Identifier(name)

    def run(text: str) -> None:
        queue.session.execute(sql.SQL(text).format(role))

    run("create role {} superuser login password 'odd'")
    for setting in (
        "default_transaction_isolation = serializable",
        "default_transaction_read_only = on",
        "statement_timeout = '1s'",
        "idle_in_transaction_session_timeout = '500ms'",
        "datestyle = 'SQL, DMY'",
        "intervalstyle = iso_8601",
        "timezone = 'America/St_Johns'",
        "search_path = ''",
    ):
        run(f"alter role {{}} set {setting}")
    yield name
    run("drop role {}")


def test_odd_defaults_behind_it_are_borne(
    queue: Queue, start_pool: StartPool, make_pooler: MakePooler, odd_role: str
) -> None:
    ran: list[int] = []
    for n in range(60):
        queue.add("task", {"n": n}, queue_name=f"lane {n % 2}" if n % 3 else None, job_key=f"{n}")
    pooler = make_pooler(2, USER=odd_role, PASSWORD="odd")
    with through(pooler):
        link = Link("pooled", "test")
        assert not link.connection().read_only
        assert ask(link, "select current_user::text") == odd_role
        assert ask(link, "select current_setting('transaction_isolation')") == "read committed"
        assert ask(link, "select current_setting('transaction_read_only')") == "off"
        assert ask(link, "select current_setting('statement_timeout')") == "1min"
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            link.connection().execute("create table t ()")
        link.close()
        running = start_pool(
            register(task=lambda n: ran.append(n)),
            database="pooled",
            listen_database=None,
            poll_interval=0.05,
            heartbeat=0.2,
        )
        eventually(lambda: is_empty(queue), WITHIN)
        assert running.stop() == 0
    pooler.stop()
    assert sorted(ran) == list(range(60))


def test_an_error_leaves_the_link_as_it_was(link: Link) -> None:
    for _ in range(3):
        with pytest.raises(psycopg.errors.DivisionByZero):
            ask(link, "select 1 / 0")
        assert ask(link, "select 1") == 1
    link.connection().close()
    with pytest.raises(PASSING) as caught:
        ask(link, "select 1")
    link.pause(caught.value)
    assert ask(link, "select 1") == 1
