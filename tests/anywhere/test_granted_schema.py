"""A role that may create nothing but what is in a schema that it was given."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO

import pytest
from django.core.management import call_command
from django.db import connections
from psycopg import sql
from pytest_django import DjangoDbBlocker, Settings

from django_graphile_worker import enqueue, install_schema
from django_graphile_worker.models import Job
from tests.fresh import Fresh, aliased, database, hold_queue
from tests.worker.tools import register

COMMAND = "django_graphile_worker.management.commands.graphile_worker"


@pytest.fixture
def granted(settings: Settings, schema: str, django_db_blocker: DjangoDbBlocker) -> Iterator[Fresh]:
    """A database whose administrator has made the schema and granted it; `restricted` uses it."""
    with django_db_blocker.unblock(), database("administrator") as made:
        role = made.make_role()
        session = made.connect()
        call_command("migrate", "contenttypes", database="administrator", verbosity=0)
        for statement in (
            "revoke create on schema public from public",
            "create schema {schema}",
            "grant usage, create on schema {schema} to {role}",
            # Django's own record of migrations has to be somewhere.
            "grant all on django_migrations, django_content_type to {role}",
            "grant all on django_migrations_id_seq, django_content_type_id_seq to {role}",
        ):
            session.execute(
                sql.SQL(statement).format(schema=sql.Identifier(schema), role=sql.Identifier(role))
            )
        with aliased("restricted", NAME=made.name, OPTIONS={"assume_role": role}):
            hold_queue(settings, "restricted", schema=schema)
            yield made


def may_create() -> tuple[bool, ...]:
    with connections["restricted"].cursor() as cursor:
        cursor.execute(
            "select has_database_privilege(current_database(), 'CREATE'),"
            " has_schema_privilege('public', 'CREATE')"
        )
        found: tuple[bool, ...] = cursor.fetchone()
        return found


def test_it_installs_works_and_goes_again(
    granted: Fresh, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert may_create() == (False, False)
    call_command("migrate", "graphile_worker", database="restricted", verbosity=0)
    said: list[str] = []
    monkeypatch.setattr(f"{COMMAND}.registry", register(say=said.append))
    enqueue("say", "a", job_key="k", queue_name="letters")
    enqueue("say", "b", job_key="k", queue_name="letters")
    call_command("graphile_worker", once=True, verbosity=0, stdout=StringIO())
    assert said == ["b"]
    assert not Job.objects.exists()
    call_command("migrate", "graphile_worker", "zero", database="restricted", verbosity=0)
    # The schema stays: somebody else made it.
    assert granted.schemas() == {schema}
    assert granted.facts(schema) == {"schema": granted.facts(schema)["schema"]}


def test_so_does_install_schema(granted: Fresh) -> None:
    install_schema()
    assert enqueue("say", "a").id == 1
