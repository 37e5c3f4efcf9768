"""What a job leaves on its thread's connections does not reach the next job."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from django.db import DatabaseError, connection, connections, transaction
from django.test import override_settings

from tests.worker.bench import RunJobs
from tests.worker.tools import Queue


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
