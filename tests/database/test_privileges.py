"""The functions run as their caller, who needs no privilege beyond the published objects.

For this the schema is installed anew where nobody may execute a function unless it is granted, as
careful administrators have it: what the role of these tests may do, it was granted here, or to
everybody by the schema itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from psycopg import sql

from django_graphile_worker.sql import loader
from tests.conftest import Connect
from tests.database.sessions import Sessions
from tests.database.stage import FUNCTIONS, Stage, ago, spec
from tests.database.ways import Way

SCHEMA = "granted, not owned"
# Roles are the cluster's: each worker of pytest-xdist has one of its own.
ROLE = f"graphile_worker_test_caller_{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}"
TABLES = ("_private_jobs", "_private_job_queues", "_private_tasks", "_private_known_crontabs")


@contextmanager
def role(connect: Connect) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """A role of the cluster, which another run of the tests may want at the same time."""
    owner = connect()
    owner.execute("select pg_advisory_lock(hashtext(%s))", [ROLE])
    owner.execute(f"create role {ROLE}")
    try:
        yield owner
    finally:
        owner.execute(sql.SQL("drop schema if exists {} cascade").format(sql.Identifier(SCHEMA)))
        owner.execute(f"drop owned by {ROLE}")
        owner.execute(f"drop role {ROLE}")


@pytest.fixture
def granted(connect: Connect, shared: Sessions) -> Iterator[Stage]:
    """A stage on a schema of which the role may use the published objects."""
    with role(connect) as owner:
        with owner.transaction():
            owner.execute("alter default privileges revoke execute on functions from public")
            for path in (p for n in ("0001", "0002", "0003") for p in loader.files(f"schema/{n}")):
                owner.execute(loader.render(loader.load(path), SCHEMA))
            owner.execute("alter default privileges grant execute on functions to public")

            def grant(text: str, name: str) -> None:
                owner.execute(sql.SQL(text).format(sql.Identifier(SCHEMA, name)))

            owner.execute(
                sql.SQL(f"grant usage on schema {{}} to {ROLE}").format(sql.Identifier(SCHEMA))
            )
            for table in TABLES:
                grant(f"grant select, insert, update, delete on {{}} to {ROLE}", table)
                grant(f"create policy theirs on {{}} to {ROLE} using (true)", table)
            for function in FUNCTIONS:
                grant(f"grant execute on function {{}} to {ROLE}", function)
        stage = Stage(connect, SCHEMA, shared)
        yield stage
        stage.close()


def test_a_conflict_is_written_down_for_them(granted: Stage, way: Way) -> None:
    old = granted.make_job("k", [1], locked_at="now", locked_by="worker", attempts=1)
    caller = granted.session(role=ROLE)
    new = way.request(granted, caller, "k", 2)
    caller.commit()

    conflicts = granted.query("select superseded_job_id, successor_job_id from {conflicts}")
    assert conflicts == [(old, new.id)]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        granted.query("select * from {conflicts}", session=caller)
    caller.rollback()
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        granted.query("delete from {conflicts}", session=caller)


def test_a_conflict_met_while_waiting_too(granted: Stage, way: Way) -> None:
    granted.make_job("k", [1])
    worker, caller = granted.session(), granted.session(role=ROLE)
    assert granted.take(worker)
    call = granted.start(caller, lambda: way.request(granted, caller, "k", 2))
    granted.wait_until_blocked(call, by=worker)
    worker.commit()
    call.result()
    caller.commit()
    granted.assert_not_lost(2)
    assert granted.count("conflicts") == 1


def test_names_are_made_and_put_back_by_them(granted: Stage, way: Way) -> None:
    granted.make_job("k", [1], task="other")
    holding, caller = granted.session(), granted.session(role=ROLE)
    way.request(granted, caller, "first", 1, queue_name="lane")
    caller.commit()
    granted.query("delete from {jobs} where key <> 'k' or key is null")
    granted.query("select from {jobs} for update", session=holding)
    call = granted.start(caller, lambda: way.request(granted, caller, "k", 2, queue_name="lane"))
    granted.wait_until_blocked(call, by=holding)
    granted.query("delete from {tasks} where identifier = 'task'; delete from {queues}")
    holding.rollback()
    call.result()
    caller.commit()
    granted.assert_not_lost(2)


@pytest.mark.parametrize(
    "call",
    [
        "{complete_jobs}(%(ids)s)",
        "{permanently_fail_jobs}(%(ids)s)",
        "{reschedule_jobs}(%(ids)s, priority => 1)",
        "{remove_job}('k')",
        "{force_unlock_workers}(array['dead'])",
    ],
)
def test_operators_functions_work_for_them(granted: Stage, call: str) -> None:
    stale = {"locked_at": ago(hours=5), "locked_by": "dead", "attempts": 1}
    ids = [granted.make_job(key, **stale) for key in ("k", None, "l")]
    caller = granted.session(role=ROLE)
    before = granted.jobs()
    assert granted.query(f"select * from {call}", {"ids": ids}, caller)
    caller.commit()
    assert granted.jobs() != before


def test_the_recorder_believes_only_what_it_finds(granted: Stage) -> None:
    """Anybody may call it; it can be told of no superseding that was none."""
    keyed, unkeyed = granted.make_job("k"), granted.make_job()
    caller = granted.session(role=ROLE)
    for key, job_id in [("k", keyed), ("other", unkeyed), ("other", 0)]:
        granted.query(
            "select {schema}.django_record_key_conflicts('replace', array[%s], array[%s]::bigint[],"
            " array[1]::smallint[])",
            [key, job_id],
            caller,
        )
    caller.commit()
    assert granted.count("conflicts") == 0


@pytest.mark.parametrize("verb", ["insert", "select", "update"])
def test_who_may_not_write_to_the_jobs_may_not_add_any(granted: Stage, verb: str) -> None:
    granted.make_job("k", [1], locked_at="now", locked_by="worker", attempts=1)
    granted.query(f"revoke {verb} on {{jobs}} from {ROLE}")
    caller = granted.session(role=ROLE)
    before = granted.jobs()
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        granted.add_job(caller, job_key="k")
    caller.rollback()
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        granted.add_jobs(caller, [spec(job_key="k")])
    caller.rollback()
    assert granted.jobs() == before


def test_a_policy_that_hides_the_holder_makes_an_error(granted: Stage, way: Way) -> None:
    """And not a second job, nor silence."""
    granted.make_job("k", [1])
    granted.query(f"create policy narrow on {{jobs}} as restrictive to {ROLE} using (key <> 'k')")
    caller = granted.session(role=ROLE)
    before = granted.jobs()
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        way.request(granted, caller, "k", 2)
    caller.rollback()
    assert granted.jobs() == before
