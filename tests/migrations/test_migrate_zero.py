"""`migrate graphile_worker zero` takes down what was made, without jobs and nobody else's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from django.db import DatabaseError
from psycopg.pq import TransactionStatus

from django_graphile_worker.exceptions import SchemaConflict
from tests.fresh import Fresh, InThread
from tests.waiting import eventually, wait_until_blocked


def test_backwards_and_forwards_again_makes_the_same(fresh: Fresh) -> None:
    fresh.migrate()
    before = fresh.facts()
    fresh.migrate("zero")
    assert fresh.schemas() == set()
    fresh.migrate()
    assert fresh.facts() == before
    fresh.migrate("zero")
    assert fresh.schemas() == set()


def test_a_schema_with_jobs_is_not_taken_down(fresh: Fresh) -> None:
    fresh.migrate()
    fresh.run("select from {}.add_job('t') as one, {}.add_job('t') as two")
    fresh.run("update {}._private_jobs set attempts = max_attempts")
    before = fresh.facts(), fresh.rows("_private_jobs")
    with pytest.raises(SchemaConflict, match=r"holds 2 jobs; nothing was changed"):
        fresh.migrate("zero")
    assert (fresh.facts(), fresh.rows("_private_jobs")) == before
    fresh.run("delete from {}._private_jobs")
    fresh.migrate("zero")
    assert fresh.schemas() == set()


def test_a_job_that_is_being_added_is_waited_for_and_counted(
    fresh: Fresh, in_thread: InThread
) -> None:
    fresh.migrate()
    caller = fresh.connect()
    observer = fresh.connect()
    with caller.transaction():
        caller.execute("select from graphile_worker.add_job('t')")
        taking_down = in_thread(fresh, "zero")
        migrating = eventually(lambda: backend_at(observer, "lock table"))
        wait_until_blocked(observer, migrating, by=caller.info.backend_pid)
    with pytest.raises(SchemaConflict, match="holds 1 job;"):
        taking_down.result(timeout=30)
    assert len(fresh.rows("_private_jobs")) == 1


def test_who_adds_a_job_meanwhile_waits_and_is_told(fresh: Fresh, in_thread: InThread) -> None:
    fresh.migrate()
    holder, caller, observer = fresh.connect(), fresh.connect(), fresh.connect()
    caller.execute("select from graphile_worker.add_job('t')")  # knows the way, as callers do
    fresh.run("delete from {}._private_jobs")
    with ThreadPoolExecutor(1) as pool, holding(holder, "django_key_conflicts") as let_go:
        # That is dropped after the jobs have been locked and counted.
        taking_down = in_thread(fresh, "zero")
        migrating = eventually(lambda: backend_at(observer, "drop "))
        wait_until_blocked(observer, migrating, by=holder.info.backend_pid)
        adding = pool.submit(caller.execute, "select id from graphile_worker.add_job('t')")
        wait_until_blocked(observer, caller.info.backend_pid, by=migrating)
        let_go()
        with pytest.raises(psycopg.Error):
            adding.result(timeout=30)
    taking_down.result(timeout=30)
    assert fresh.schemas() == set()


@contextmanager
def holding(session: psycopg.Connection[Any], table: str) -> Iterator[Callable[[], object]]:
    """Keep others from dropping a table until the function is called, or the end."""
    session.execute("begin")
    try:
        session.execute(f"lock table graphile_worker.{table} in access share mode".encode())
        yield lambda: session.execute("rollback")
    finally:
        if session.info.transaction_status != TransactionStatus.IDLE:
            session.execute("rollback")


def backend_at(observer: psycopg.Connection[Any], query: str) -> int:
    """The backend that is at a statement which begins so, comments aside."""
    found = observer.execute(
        "select pid from pg_stat_activity where datname = current_database()"
        " and regexp_replace(query, '--[^\\n]*\\n', '', 'g') ilike %s and state = 'active'",
        [query + "%"],
    ).fetchall()
    assert len(found) == 1, found
    pid: int = found[0][0]
    return pid


DEPENDENTS = {
    "a view on the jobs": ("create view v as select id from {}.jobs", "view v"),
    "a view on the table": ("create view v as select id from {}._private_jobs", "view v"),
    "a foreign key": (
        "create table t (job_id bigint references {}._private_jobs)",
        "t_job_id_fkey on table t",
    ),
    "a function": (
        "create function f({}._private_jobs) returns int language sql as 'select 1'",
        "function f",
    ),
    "a column": ("create table t (specs {}.job_spec[])", "column specs of table t"),
    "a table in the schema": ("create table {}.theirs ()", "table graphile_worker.theirs"),
}


@pytest.mark.parametrize(("made", "named"), DEPENDENTS.values(), ids=DEPENDENTS)
def test_nothing_of_anybody_else_is_dropped(fresh: Fresh, made: str, named: str) -> None:
    fresh.migrate()
    fresh.run(made)
    # Each migration is a transaction of its own: those above the one that is stopped are undone.
    fresh.migrate("0001")
    before = fresh.facts()
    with pytest.raises(DatabaseError, match="other objects depend on it") as refused:
        fresh.migrate("zero")
    assert named in str(refused.value)
    assert fresh.facts() == before
    assert fresh.run("select 1 from django_migrations where app = 'graphile_worker'")


def test_what_another_has_installed_since_is_left_alone(fresh: Fresh) -> None:
    fresh.migrate()
    fresh.run("drop schema {} cascade; create schema {}")
    fresh.run("create table {}.migrations (id int); insert into {}.migrations values (20)")
    before = fresh.facts()
    fresh.migrate("zero")
    assert fresh.facts() == before
