"""Several migrations at once, other names, other settings."""

from __future__ import annotations

import json

import pytest
from django.core.management import call_command
from pytest_django import Settings

from tests import catalog
from tests.fresh import SCHEMA, Fresh, InThread, Manage, hold_queue
from tests.waiting import eventually

UGLY = 'Odd "name". It\'s \\ schön'


def test_many_migrations_at_once_all_succeed(fresh: Fresh, in_thread: InThread) -> None:
    fresh.migrate()
    # Django itself may fail when several runs make the same content types and permissions, so
    # those are there already.
    call_command("migrate", database="fresh", verbosity=0)
    fresh.run("drop schema {} cascade; delete from django_migrations where app = 'graphile_worker'")
    gate, observer = fresh.connect(), fresh.connect()
    gate.execute("set lock_timeout = '10s'")
    with gate.transaction():
        # They are let go together, once all of them have come to the same place.
        gate.execute(
            "select pg_advisory_xact_lock(hashtextextended('django_graphile_worker:' || %s, 0))",
            [SCHEMA],
        )
        runs = [in_thread(fresh) for _ in range(5)]

        def all_wait() -> None:
            waiting = observer.execute(
                "select count(*) from pg_locks where locktype = 'advisory' and not granted"
                " and database = (select oid from pg_database where datname = current_database())"
            ).fetchone()
            assert waiting == (5,)

        eventually(all_wait, within=30)
    for run in runs:
        run.result(timeout=30)
    assert len(fresh.rows("migrations")) == 20
    assert len(fresh.rows("django_installation")) == 1


PROGRAM = """
import json
from django.core.management import call_command
from django.db import connection
from django_graphile_worker import enqueue
from django_graphile_worker.models import Job, Task

call_command("migrate", "graphile_worker", verbosity=0)
job = enqueue("send", {"to": "a@b"}, job_key="k")
print("RESULT", json.dumps([job.id, Job.objects.get().payload, Task.objects.get().identifier]))
with connection.cursor() as cursor:
    cursor.execute(f"delete from {Job._meta.db_table}")
"""


def test_it_all_works_under_another_name(fresh: Fresh, manage: Manage, settings: Settings) -> None:
    # In another process, since the names of the models' tables are made when they are loaded.
    output = manage(fresh, "shell", "-c", PROGRAM, GRAPHILE_WORKER_SCHEMA=UGLY)
    result = output.partition("RESULT ")[2].splitlines()[0]
    assert json.loads(result) == [1, '{"to":"a@b"}', "send"]
    assert fresh.schemas() == {UGLY}
    elsewhere = fresh.facts(UGLY)
    hold_queue(settings, "fresh", schema=UGLY)
    fresh.migrate("zero")
    assert fresh.schemas() == set()
    # It is the same as one of the usual name.
    hold_queue(settings, "fresh")
    fresh.migrate()
    assert catalog.differences(fresh.facts(), elsewhere) == []


def test_no_migration_is_missing(fresh: Fresh, settings: Settings, schema: str) -> None:
    # The name that the models were loaded with; migrations are loaded anew and ask again.
    hold_queue(settings, "fresh", schema=schema)
    call_command("makemigrations", check_changes=True, dry_run=True, verbosity=0)


@pytest.mark.parametrize("auto_field", ["AutoField", "SmallAutoField"])
def test_none_is_missing_with_another_default_key(
    fresh: Fresh, manage: Manage, auto_field: str
) -> None:
    output = manage(
        fresh,
        *("makemigrations", "--check", "--dry-run", "-v", "3"),
        DEFAULT_AUTO_FIELD=f"django.db.models.{auto_field}",
    )
    assert "No changes detected" in output
