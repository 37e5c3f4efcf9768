"""What a job leaves on its thread's connections does not reach the next job."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import DatabaseError, connection, connections, transaction
from django.test import override_settings

from tests.waiting import eventually
from tests.worker.bench import MakeBench, job
from tests.worker.tools import Queue

RunJobs = Callable[..., list[Any]]


@pytest.fixture(params=["sync", "async"])
def run_jobs(
    request: pytest.FixtureRequest, make_bench: MakeBench, transactional_db: None
) -> RunJobs:
    """Run functions as jobs, one after the other in one slot; return what they returned.

    They run in the slot's thread, or in the thread of an async slot's sync code.
    """

    def run_jobs(*functions: Callable[[], Any], failing: int = 0) -> list[Any]:
        results: list[Any] = []

        def sync(n: int) -> None:
            results.append(functions[n]())

        async def asynchronous(n: int) -> None:
            await sync_to_async(sync)(n)

        bench = make_bench(task=sync if request.param == "sync" else asynchronous)
        bench.feed(*[job(n, payload={"n": n}) for n in range(len(functions))])
        errors = [error for _ in functions if (error := bench.outcome().error) is not None]
        assert len(errors) == failing, errors
        return results

    return run_jobs


def backend() -> int:
    with connection.cursor() as cursor:
        cursor.execute("select pg_backend_pid()")
        return int(cursor.fetchone()[0])


def state() -> tuple[bool, bool, str]:
    with connection.cursor() as cursor:
        cursor.execute("select current_setting('transaction_isolation')")
        isolation = cursor.fetchone()[0]
    return connection.in_atomic_block, connection.get_autocommit(), isolation


CLEAN = (False, True, "read committed")


def test_a_slot_keeps_its_connection_though_conn_max_age_is_0(run_jobs: RunJobs) -> None:
    assert connection.settings_dict["CONN_MAX_AGE"] == 0
    pids = run_jobs(*[backend] * 5)

    assert len(set(pids)) == 1


def test_an_old_connection_is_replaced(run_jobs: RunJobs) -> None:
    def age() -> int:
        connection.settings_dict = {**connection.settings_dict, "CONN_MAX_AGE": 60}
        pid = backend()
        connection.close_at = time.monotonic()
        return pid

    first, second = run_jobs(age, backend)
    assert first != second


@pytest.mark.parametrize(
    "leave",
    [
        lambda: transaction.atomic().__enter__(),
        lambda: transaction.set_autocommit(False),
        lambda: connection.cursor().execute("begin isolation level serializable"),
        lambda: (transaction.set_autocommit(False), connection.cursor().execute("select 1")),
    ],
    ids=["atomic", "autocommit off", "raw begin", "autocommit off and used"],
)
def test_a_transaction_left_open_is_rolled_back(
    run_jobs: RunJobs, queue: Queue, leave: Callable[[], Any]
) -> None:
    queue.query("create table left_open (n int)")
    try:

        def dirty() -> None:
            leave()
            with connection.cursor() as cursor:
                cursor.execute("insert into left_open values (1)")

        def look() -> tuple[bool, bool, str]:
            with connection.cursor() as cursor:
                cursor.execute("insert into left_open values (2)")
            return state()

        assert run_jobs(dirty, look, state) == [None, CLEAN, CLEAN]
        assert queue.query("select n from left_open") == [{"n": 2}]
    finally:
        queue.query("drop table left_open")


def test_a_database_error_does_not_reach_the_next_job(run_jobs: RunJobs) -> None:
    def fail() -> None:
        with connection.cursor() as cursor:
            cursor.execute("select 1 / 0")

    def fail_in_atomic() -> None:
        with transaction.atomic():
            try:
                fail()
            except DatabaseError:
                backend()

    assert run_jobs(fail, state, fail_in_atomic, state, failing=2) == [CLEAN, CLEAN]


def test_a_connection_that_died_under_a_job_fails_that_job_only(
    run_jobs: RunJobs, queue: Queue
) -> None:
    def die() -> None:
        with connection.cursor() as cursor:
            cursor.execute("select pg_terminate_backend(pg_backend_pid())")

    assert run_jobs(die, state, failing=1) == [CLEAN]


def test_a_connection_that_died_between_two_jobs_fails_none(
    run_jobs: RunJobs, queue: Queue
) -> None:
    first: list[int] = []

    def open_it() -> None:
        first.append(backend())

    def use_it() -> bool:
        return backend() not in first

    def kill_it() -> None:
        # As if while idle: not through the connection itself, which would notice.
        queue.query("select pg_terminate_backend(%s, 5000)", first)

    assert run_jobs(open_it, kill_it, use_it) == [None, None, True]


@override_settings(DEBUG=True)
def test_query_logs_do_not_grow(run_jobs: RunJobs) -> None:
    def query() -> int:
        backend()
        return len(connection.queries_log)

    first, second, third = run_jobs(query, query, query)
    assert first > 0
    assert second <= first
    assert third == second


def test_a_job_may_close_its_connection(run_jobs: RunJobs) -> None:
    assert run_jobs(connections.close_all, state, lambda: connection.close(), state) == [
        None,
        CLEAN,
        None,
        CLEAN,
    ]


def test_on_commit_hooks_of_a_transaction_left_open_are_forgotten(run_jobs: RunJobs) -> None:
    called: list[str] = []

    def leave() -> None:
        transaction.atomic().__enter__()
        transaction.on_commit(lambda: called.append("dirty"))

    def commit() -> None:
        with transaction.atomic():
            transaction.on_commit(lambda: called.append("clean"))

    run_jobs(leave, commit)
    assert called == ["clean"]


def set_by(statement: str) -> Callable[[], None]:
    def run() -> None:
        with connection.cursor() as cursor:
            cursor.execute(statement)

    return run


def look() -> tuple[str, ...]:
    with connection.cursor() as cursor:
        cursor.execute(
            "select current_setting('search_path'), current_setting('TimeZone'), current_user,"
            " current_setting('statement_timeout'), to_regclass('pg_temp.left_behind'),"
            " (select count(*) from pg_locks where locktype = 'advisory' and"
            " pid = pg_backend_pid()), (select count(*) from pg_prepared_statements"
            " where name = 'left_behind'), (select count(*) from pg_listening_channels())"
        )
        return tuple(map(str, cursor.fetchone()))


@pytest.mark.parametrize(
    "statement",
    [
        "set search_path to pg_catalog",
        "SET search_path = pg_catalog",
        "  set\n\tsession search_path to pg_catalog",
        "select 1; set search_path to pg_catalog",
        "set time zone 'Asia/Tokyo'",
        "select set_config('TimeZone', 'Asia/Tokyo', false)",
        "set role pg_monitor",
        "set statement_timeout to '50s'",
        "create temp table left_behind (n int)",
        "select pg_advisory_lock(7)",
        "prepare left_behind as select 1",
        "listen somewhere",
    ],
)
def test_what_is_set_in_the_session_does_not_reach_the_next_job(
    run_jobs: RunJobs, statement: str
) -> None:
    before, _, after = run_jobs(look, set_by(statement), look)
    assert before == after
    # And that it would have been seen:
    with connection.cursor() as cursor:
        cursor.execute(statement)
    assert look() != before
    connection.close()


def test_a_time_zone_set_past_django_is_seen_all_the_same(run_jobs: RunJobs) -> None:
    def past_django() -> None:
        connection.ensure_connection()
        connection.connection.execute("set time zone 'Asia/Tokyo'")

    before, _, after = run_jobs(look, past_django, look)
    assert before == after


@pytest.mark.parametrize(
    "statement",
    [
        "set local search_path to pg_catalog",
        "set transaction read only",
        "set constraints all immediate",
        "select pg_advisory_xact_lock(7)",
    ],
)
def test_what_ends_with_its_transaction_costs_no_connection(
    run_jobs: RunJobs, statement: str
) -> None:
    def in_transaction() -> None:
        with transaction.atomic():
            set_by(statement)()

    first, _, second = run_jobs(backend, in_transaction, backend)
    assert first == second


def test_a_session_may_be_looked_at_by_wrappers_of_the_projects_own(run_jobs: RunJobs) -> None:
    seen: list[str] = []

    def wrapper(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        seen.append(sql)
        return execute(sql, params, many, context)

    def wrapped() -> None:
        # The connection is opened within: what it adds must not take the place of this one.
        with connection.execute_wrapper(wrapper):
            backend()
        backend()

    run_jobs(wrapped, backend)
    assert seen == ["select pg_backend_pid()"]


def test_many_jobs_use_no_more_connections_than_slots(make_bench: MakeBench, queue: Queue) -> None:
    pids: set[int] = set()

    def sync() -> None:
        pids.add(backend())

    async def asynchronous() -> None:
        await sync_to_async(sync)()

    bench = make_bench(sync, asynchronous, concurrency=3)
    bench.feed(*[job(n, ["sync", "asynchronous"][n % 2]) for n in range(500)])
    assert [bench.outcome().error for _ in range(500)] == [None] * 500
    # A thread and a coroutine's thread for each slot, at most.
    assert len(pids) <= 6

    bench.executor.stop()
    assert bench.executor.join(10)

    def none_left() -> None:
        text = "select pid from pg_stat_activity where pid = any(%s)"
        assert queue.query(text, [list(pids)]) == []

    eventually(none_left)  # a closed session needs a moment to vanish
