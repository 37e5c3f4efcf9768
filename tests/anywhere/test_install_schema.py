"""`install_schema()` does what `migrate` does, where no migrations are run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from pytest_django import Settings

from django_graphile_worker import install_schema
from django_graphile_worker.exceptions import SchemaConflict, UnsupportedDatabase
from tests import catalog
from tests.fresh import ROOT, Fresh, database, hold_queue


def test_it_makes_what_migrate_makes(fresh: Fresh, settings: Settings) -> None:
    install_schema()
    assert fresh.run("select id > 0 from {}.add_job('t', '[1]')") == [(True,)]
    installed = fresh.facts()
    assert not fresh.run("select 1 from pg_class where relname = 'django_migrations'")
    with database("other") as other:
        hold_queue(settings, "fresh", "other")
        other.migrate()
        assert catalog.differences(other.facts(), installed) == []


def test_once_more_changes_nothing_nor_does_migrate(fresh: Fresh) -> None:
    install_schema(using="fresh")
    fresh.run("select id from {}.add_job('t', '[1]')")
    before = fresh.facts(), fresh.rows("_private_jobs"), fresh.rows("django_installation")
    install_schema(using="fresh")
    fresh.migrate()
    install_schema(using="fresh")
    after = fresh.facts(), fresh.rows("_private_jobs"), fresh.rows("django_installation")
    assert after == before


def test_what_another_made_is_refused(fresh: Fresh) -> None:
    fresh.run("create schema {}; create table {}.a ()")
    before = fresh.facts()
    with pytest.raises(SchemaConflict, match="objects of another origin; nothing was changed"):
        install_schema()
    assert fresh.facts() == before


def test_an_alias_that_comes_to_hold_a_queue_later_gets_one(
    fresh: Fresh, settings: Settings
) -> None:
    hold_queue(settings, "default")
    fresh.migrate()
    hold_queue(settings, "default", "fresh")
    fresh.migrate()  # which is written down already
    assert fresh.schemas() == set()
    install_schema(using="fresh")
    assert fresh.run("select id > 0 from {}.add_job('t', '[1]')") == [(True,)]


class Nowhere:
    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        return False if app_label == "graphile_worker" else None


def test_where_no_queue_is_to_be_it_says_so(fresh: Fresh, settings: Settings) -> None:
    hold_queue(settings, "default")
    with pytest.raises(UnsupportedDatabase, match="does not name 'fresh'"):
        install_schema(using="fresh")
    hold_queue(settings, "fresh")
    settings.DATABASE_ROUTERS = [Nowhere()]
    with pytest.raises(UnsupportedDatabase, match="A router forbids"):
        install_schema(using="fresh")
    with pytest.raises(UnsupportedDatabase, match="no database alias 'nowhere'"):
        install_schema(using="nowhere")
    assert fresh.schemas() == set()


CONFTEST = """
import pytest
from django_graphile_worker import install_schema

@pytest.fixture(scope="session")
def django_db_setup(django_db_setup, django_db_blocker):
    with django_db_blocker.unblock():
        install_schema()
"""

TESTS = """
import pytest
from django.db import connection
from django_graphile_worker import enqueue
from django_graphile_worker.models import Job

@pytest.mark.django_db
def test_it():
    assert "django_migrations" not in connection.introspection.table_names()
    enqueue("say", "a")
    assert Job.objects.get().payload == '"a"'

@pytest.mark.django_db(transaction=True)
def test_that_commits():
    enqueue("say", "a", queue_name="letters")
    assert Job.objects.get().job_queue.queue_name == "letters"
"""


def test_a_project_tests_without_migrations(fresh: Fresh, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS)
    options = ["-q", "-p", "no:cacheprovider", "--nomigrations", "--ds=testproject.settings"]
    place = ["-c", os.devnull, f"--rootdir={tmp_path}", str(tmp_path)]
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pytest", *options, *place],
        cwd=ROOT,
        env={
            **{name: value for name, value in os.environ.items() if "XDIST" not in name},
            "DATABASE_URL": fresh.url,
            "PYTEST_ADDOPTS": "",
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "2 passed" in ran.stdout


def test_a_schema_is_there_for_djangos_own_runner(fresh: Fresh) -> None:
    """As the documentation tells those without pytest: when Django has made its tables."""
    from django.db.models.signals import post_migrate

    def install(using: str, **kwargs: Any) -> None:
        install_schema(using=using)

    post_migrate.connect(install)
    try:
        call_command("migrate", "contenttypes", database="fresh", verbosity=0)
    finally:
        assert post_migrate.disconnect(install)
    assert fresh.run("select id > 0 from {}.add_job('t', '[1]')") == [(True,)]
