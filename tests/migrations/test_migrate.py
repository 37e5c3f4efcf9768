"""`migrate` installs the schema where it may, and touches nothing that it did not make."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import call_command
from django.db import ProgrammingError
from psycopg import sql
from pytest_django import Settings

from django_graphile_worker.exceptions import SchemaConflict
from tests.fresh import SCHEMA, Fresh, aliased, hold_queue


def test_everything_is_there_after_a_fresh_migrate(fresh: Fresh) -> None:
    fresh.migrate()
    assert fresh.schemas() == {SCHEMA}
    assert [(pk, breaking) for pk, _, breaking in fresh.rows("migrations")] == [
        (pk, pk in (1, 3, 11, 13, 14, 16, 19)) for pk in range(1, 21)
    ]
    ((_, version, origin, schema_created, *_times),) = fresh.rows("django_installation")
    assert (version, origin, schema_created) == (1, "installed", True)
    assert fresh.run("select id > 0 from {}.add_job('t', '[1]')") == [(True,)]


def test_an_empty_schema_made_by_an_administrator_is_filled_and_left_behind(
    fresh: Fresh,
) -> None:
    fresh.run("create schema {}; comment on schema {} is 'ours'")
    fresh.migrate()
    assert fresh.rows("django_installation")[0][3] is False
    fresh.migrate("zero")
    assert fresh.schemas() == {SCHEMA}
    assert fresh.facts() == {"schema": ""}


def test_a_role_that_may_create_nothing_else_can_fill_its_empty_schema(
    fresh: Fresh, settings: Settings
) -> None:
    role = fresh.make_role()
    session = fresh.connect()
    session.execute("revoke create on schema public from public")
    session.execute(
        sql.SQL("create schema {} authorization {}").format(
            sql.Identifier(SCHEMA), sql.Identifier(role)
        )
    )
    # Django's own record of migrations has to be somewhere.
    call_command("migrate", "contenttypes", database="fresh", verbosity=0)
    for table in ("django_migrations", "django_content_type"):
        session.execute(
            sql.SQL("grant all on {}, {} to {}").format(
                sql.Identifier(table), sql.Identifier(f"{table}_id_seq"), sql.Identifier(role)
            )
        )
    with aliased("restricted", NAME=fresh.name, OPTIONS={"assume_role": role}):
        hold_queue(settings, "restricted")
        call_command("migrate", "graphile_worker", database="restricted", verbosity=0)
    owners = session.execute(
        "select distinct relowner::regrole::text from pg_class"
        " where relnamespace = %s::regnamespace",
        [SCHEMA],
    ).fetchall()
    assert owners == [(role,)]
    session.execute(sql.SQL("set role {}").format(sql.Identifier(role)))
    added = session.execute(
        sql.SQL("select id from {}.add_job('t')").format(sql.Identifier(SCHEMA))
    )
    assert added.fetchone() == (1,)


def test_a_schema_of_ours_is_left_as_it_is(fresh: Fresh) -> None:
    fresh.migrate()
    fresh.run("select id from {}.add_job('t', '[1]', job_key := 'k')")
    before = [
        (name, fresh.rows(name)) for name in ("_private_jobs", "migrations", "django_installation")
    ]
    oids = fresh.run("select oid from pg_proc where pronamespace = 'graphile_worker'::regnamespace")
    fresh.run("delete from django_migrations where app = 'graphile_worker'")
    fresh.migrate()
    assert [(name, fresh.rows(name)) for name, _ in before] == before
    assert oids == fresh.run(
        "select oid from pg_proc where pronamespace = 'graphile_worker'::regnamespace"
    )


FOREIGN = {
    "a table": "create table {}.a ()",
    "a function": "create function {}.f() returns int language sql as 'select 1'",
    "a type": "create type {}.mood as enum ('good')",
    "a domain": "create domain {}.d as int",
    "a sequence": "create sequence {}.s",
    "an unrelated table called migrations": (
        "create table {}.migrations (name text); insert into {}.migrations values ('0001')"
    ),
    "a migrations table without rows": (
        "create table {}.migrations (id int primary key, ts timestamptz, breaking boolean)"
    ),
    "an unrelated table called django_installation": "create table {}.django_installation (a text)",
    "our table without its row": (
        "create table {}.django_installation"
        " (functions_version int, origin text, schema_created boolean)"
    ),
}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
def test_a_schema_of_somebody_else_is_refused_and_stays_as_it_is(
    fresh: Fresh, content: str
) -> None:
    fresh.run(f"create schema {{}}; {content}")
    before = fresh.facts()
    with pytest.raises(SchemaConflict, match="objects of another origin; nothing was changed"):
        fresh.migrate()
    assert fresh.facts() == before
    assert not fresh.run("select 1 from django_migrations where app = 'graphile_worker'")


def test_a_failure_half_way_leaves_nothing(fresh: Fresh, settings: Settings) -> None:
    role = fresh.make_role()
    call_command("migrate", "contenttypes", database="fresh", verbosity=0)
    # Schema and tables can be made, functions cannot.
    fresh.run(
        "revoke usage on language plpgsql from public;"
        f" grant create on database {fresh.name} to {role};"
        f" grant select on django_migrations to {role}"
    )
    with aliased("unable", NAME=fresh.name, OPTIONS={"assume_role": role}):
        hold_queue(settings, "unable")
        with pytest.raises(ProgrammingError, match="permission denied for language plpgsql"):
            call_command("migrate", "graphile_worker", database="unable", verbosity=0)
    assert fresh.schemas() == set()
    assert not fresh.run("select 1 from django_migrations where app = 'graphile_worker'")


def test_what_sqlmigrate_prints_does_the_same(fresh: Fresh) -> None:
    forwards, backwards = StringIO(), StringIO()
    for printed, backward, names in (
        (forwards, False, ["0001", "0002", "0003"]),
        (backwards, True, ["0003", "0002", "0001"]),
    ):
        for name in names:
            call_command(
                "sqlmigrate",
                "graphile_worker",
                name,
                database="fresh",
                backwards=backward,
                stdout=printed,
            )
    assert fresh.schemas() == set()
    session = fresh.connect()
    session.execute(forwards.getvalue().encode())
    by_hand = fresh.facts()
    assert fresh.rows("django_installation")[0][1:4] == (1, "installed", True)
    fresh.migrate()  # finds the work done
    assert fresh.facts() == by_hand
    session.execute(backwards.getvalue().encode())
    assert fresh.schemas() == set()
    fresh.run("delete from django_migrations where app = 'graphile_worker'")
    fresh.migrate()
    assert fresh.facts() == by_hand
