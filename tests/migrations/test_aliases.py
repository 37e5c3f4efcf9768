"""Which databases get the schema, and which are refused or left alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from pytest_django import DjangoDbBlocker, Settings

from django_graphile_worker.exceptions import UnsupportedDatabase
from tests.fresh import SCHEMA, Fresh, aliased, database, hold_queue


def test_an_alias_that_holds_no_queue_is_untouched(fresh: Fresh, settings: Settings) -> None:
    hold_queue(settings, "default")
    fresh.migrate()
    assert fresh.schemas() == set()
    assert fresh.run("select 1 from django_migrations where app = 'graphile_worker'")
    fresh.run("create schema {}; create table {}.migrations (id int)")
    before = fresh.facts()
    fresh.migrate("zero")
    fresh.migrate()
    assert fresh.facts() == before


def test_every_alias_that_holds_a_queue_gets_its_own(fresh: Fresh, settings: Settings) -> None:
    with database("second") as second:
        hold_queue(settings, "fresh", "second")
        second.migrate()
        assert (fresh.schemas(), second.schemas()) == (set(), {SCHEMA})
        fresh.migrate()
        second.migrate("zero")
        assert (fresh.schemas(), second.schemas()) == ({SCHEMA}, set())


class Nowhere:
    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        return False if app_label == "graphile_worker" else None


def test_a_router_can_forbid_it(fresh: Fresh, settings: Settings) -> None:
    settings.DATABASE_ROUTERS = [Nowhere()]
    fresh.migrate()
    assert fresh.schemas() == set()


def test_another_database_is_refused(
    settings: Settings, django_db_blocker: DjangoDbBlocker, tmp_path: Path
) -> None:
    hold_queue(settings, "lite")
    with (
        django_db_blocker.unblock(),
        aliased("lite", ENGINE="django.db.backends.sqlite3", NAME=str(tmp_path / "lite.db")),
    ):
        with pytest.raises(UnsupportedDatabase, match="'lite', which is not a PostgreSQL"):
            call_command("migrate", "graphile_worker", database="lite", verbosity=0)
        hold_queue(settings, "default")
        call_command("migrate", "graphile_worker", database="lite", verbosity=0)


def test_the_old_driver_is_refused(fresh: Fresh, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh.run("create table django_migrations_are_made_by_then ()")
    monkeypatch.setattr("django.db.backends.postgresql.psycopg_any.is_psycopg3", False)
    with pytest.raises(UnsupportedDatabase, match="psycopg 3"):
        fresh.migrate()
    assert fresh.schemas() == set()
