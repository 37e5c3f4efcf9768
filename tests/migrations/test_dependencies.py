"""Nothing of ours holds on to anything of upstream's, so that its next migration can change it.

On a migrated schema each of upstream's objects can be dropped without CASCADE, once what depends on
it in upstream's own schema is gone: the published functions, and the view on its tables.
"""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.fresh import SCHEMA, Fresh


def published_functions(session: psycopg.Connection[Any]) -> list[str]:
    rows = session.execute(
        "select oid::regprocedure::text from pg_proc"
        " where pronamespace = %s::regnamespace and proname !~ '^django_' order by 1",
        [SCHEMA],
    ).fetchall()
    return [name for (name,) in rows]


def droppable(session: psycopg.Connection[Any]) -> list[str]:
    """A statement for each relation, column, constraint, index and type that is not ours."""
    rows = session.execute(
        """
        select format('drop %%s %%s',
          case relkind when 'r' then 'table' when 'v' then 'view' when 'c' then 'type'
            when 'i' then 'index' when 'S' then 'sequence' end, oid::regclass)
        from pg_class
        where relnamespace = %(schema)s::regnamespace and relname !~ '^django_'
          and not exists (select from pg_constraint where conindid = pg_class.oid)
          and not exists (
            select from pg_depend where objid = pg_class.oid and deptype = 'i'
              and classid = 'pg_class'::regclass and refclassid = 'pg_class'::regclass)
        union all
        select format('alter table %%s drop column %%I', attrelid::regclass, attname)
        from pg_attribute
        join pg_class on pg_class.oid = attrelid
        where relnamespace = %(schema)s::regnamespace and relname !~ '^django_'
          and relkind = 'r' and attnum > 0 and not attisdropped
        union all
        select format('alter table %%s drop constraint %%I', conrelid::regclass, conname)
        from pg_constraint
        join pg_class on pg_class.oid = conrelid
        where relnamespace = %(schema)s::regnamespace and relname !~ '^django_'
          and contype <> 'n'
        union all
        select format('alter table %%s alter column %%I type varchar', attrelid::regclass, attname)
        from pg_attribute
        join pg_class on pg_class.oid = attrelid
        where relnamespace = %(schema)s::regnamespace and relname = '_private_jobs'
          and attname in ('last_error', 'key', 'locked_by')
        order by 1
        """,
        {"schema": SCHEMA},
    ).fetchall()
    return [statement for (statement,) in rows]


def attempt(session: psycopg.Connection[Any], statements: list[str]) -> str | None:
    """Run statements and undo them; return what depends on what the last one drops."""
    try:
        with session.transaction(force_rollback=True):
            for statement in statements:
                session.execute(statement.encode())
    except psycopg.errors.DependentObjectsStillExist as error:
        return error.diag.message_detail
    return None


def test_each_of_upstreams_objects_can_be_dropped(fresh: Fresh) -> None:
    fresh.migrate()
    session = fresh.connect()
    functions = [f"drop function {name}" for name in published_functions(session)]
    assert len(functions) == 7
    objects = droppable(session)
    assert len(objects) > 50
    view = f"drop view {SCHEMA}.jobs"
    assert view in objects
    held = {
        statement: detail
        for statement in objects
        if statement != view
        and (detail := attempt(session, [*functions, view, statement])) is not None
    }
    # These two hold each other up within one table of upstream's.
    generated = {
        f"alter table {SCHEMA}._private_{table} drop column {column}"
        for table, columns in (
            ("jobs", ["attempts", "locked_at", "max_attempts"]),
            ("job_queues", ["locked_at"]),
        )
        for column in columns
    }
    assert {
        statement: detail for statement, detail in held.items() if statement not in generated
    } == {}
    for statement in generated & held.keys():
        assert held[statement].splitlines() == [
            line for line in held[statement].splitlines() if "column is_available" in line
        ]
    assert attempt(session, [*functions, view]) is None


def test_the_published_functions_can_be_dropped_first(fresh: Fresh) -> None:
    fresh.migrate()
    session = fresh.connect()
    for name in published_functions(session):
        assert attempt(session, [f"drop function {name}"]) is None


@pytest.mark.parametrize(
    "addition",
    [
        "create view {}.django_v as select id from {}._private_jobs",
        "create function {}.django_f({}._private_jobs) returns int language sql as 'select 1'",
        "create table {}.django_t (job_id bigint references {}._private_jobs)",
        "create table {}.django_t (specs {}.job_spec[])",
    ],
)
def test_an_addition_that_holds_on_to_upstreams_is_seen(fresh: Fresh, addition: str) -> None:
    fresh.migrate()
    fresh.run(addition)
    session = fresh.connect()
    functions = [f"drop function {name}" for name in published_functions(session)]
    view = f"drop view {SCHEMA}.jobs"
    details = [
        attempt(session, [*functions, view, statement])
        for statement in droppable(session)
        if statement != view
    ]
    assert [detail for detail in details if detail and "django_" in detail]


def test_our_functions_name_no_type_of_upstreams(fresh: Fresh) -> None:
    fresh.migrate()
    rows = fresh.run(
        "select proname, format_type(argument, null)"
        " from pg_proc, unnest(array_append(proargtypes::oid[], prorettype)) as argument"
        " join pg_type on pg_type.oid = argument"
        " where pronamespace = 'graphile_worker'::regnamespace and proname ~ '^django_'"
        " and (typnamespace = pronamespace or typelem in"
        " (select oid from pg_type where typnamespace = pronamespace))"
    )
    assert rows == []
    atomic = fresh.run(
        "select proname from pg_proc where pronamespace = 'graphile_worker'::regnamespace"
        " and prosqlbody is not null"
    )
    assert atomic == []
