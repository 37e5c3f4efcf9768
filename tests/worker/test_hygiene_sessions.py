"""What a job sets in a session ends with it, and what ends by itself costs nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection, transaction

from tests.waiting import eventually
from tests.worker.bench import MakeBench, RunJobs, job
from tests.worker.tools import Queue


def backend() -> int:
    with connection.cursor() as cursor:
        cursor.execute("select pg_backend_pid()")
        return int(cursor.fetchone()[0])


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
        "/* a view's name; */ -- and more\nset search_path to pg_catalog",
        "select 1; /* traced */ set search_path to pg_catalog",
        "SELECT SET_CONFIG('TimeZone', 'Asia/Tokyo', false)",
        "do $$ begin set search_path to pg_catalog; end $$",
        "create temp table left_behind (n int)",
        "create or replace temporary view left_behind as select 1",
        "select 1 as n into temp left_behind",
        "with one as (select 1 as n) select n into local temporary left_behind from one",
        "explain analyze create temp table left_behind as select 1",
        "select pg_advisory_lock(7)",
        "select PG_TRY_ADVISORY_LOCK(7)",
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
