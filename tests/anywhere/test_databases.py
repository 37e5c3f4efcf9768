"""Several queues beside each other, one alias each, and databases that hold none."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connections, transaction
from django.test import RequestFactory
from pytest_django import DjangoDbBlocker, Settings

from django_graphile_worker import (
    complete_jobs,
    enqueue,
    enqueue_many,
    permanently_fail_jobs,
    remove_job,
    reschedule_jobs,
)
from django_graphile_worker.exceptions import UnsupportedDatabase
from django_graphile_worker.models import Job, LockedJob, Task
from tests.fresh import Fresh, aliased, database, hold_queue
from tests.worker.tools import register

COMMAND = "django_graphile_worker.management.commands.graphile_worker"

Work = Callable[..., list[str]]


@pytest.fixture
def first(settings: Settings, schema: str, django_db_blocker: DjangoDbBlocker) -> Iterator[Fresh]:
    """A database with a queue, the project's first."""
    with django_db_blocker.unblock(), database("first") as made:
        hold_queue(settings, "first", schema=schema)
        made.migrate()
        yield made


@pytest.fixture
def second(settings: Settings, schema: str, first: Fresh) -> Iterator[Fresh]:
    """Another with a queue of its own."""
    with database("second") as made:
        hold_queue(settings, "first", "second", schema=schema)
        made.migrate()
        yield made


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    """Drain a queue with the command, and return what its jobs said."""

    def work(**options: Any) -> list[str]:
        said: list[str] = []
        monkeypatch.setattr(f"{COMMAND}.registry", register(say=said.append))
        call_command("graphile_worker", once=True, verbosity=0, stdout=StringIO(), **options)
        return said

    return work


def payloads(using: str) -> list[Any]:
    return [json.loads(job.payload) for job in Job.objects.using(using).order_by("id")]


def test_each_alias_has_a_queue_of_its_own(second: Fresh, work: Work) -> None:
    enqueue("say", "a")
    enqueue("say", "b", using="second")
    enqueue_many([("say", "c"), ("say", "d")], using="second")
    assert (payloads("first"), payloads("second")) == (["a"], ["b", "c", "d"])
    assert list(Job.objects.values_list("task__identifier", flat=True)) == ["say"]
    named: Any = Job.objects.using("second").with_names().first()
    assert (named.task_identifier, named.task.identifier) == ("say", "say")
    assert sorted(work(database="second")) == ["b", "c", "d"]  # side by side
    assert (payloads("first"), payloads("second")) == (["a"], [])
    assert work() == ["a"]


def test_the_verbs_reach_the_alias_that_is_named(second: Fresh) -> None:
    job = enqueue("say", "a", job_key="k", using="second")
    # The same number and the same key, in the other queue.
    other = enqueue("say", "b", job_key="k")
    assert other.id == job.id
    assert permanently_fail_jobs([job.id], "no", using="second")[0].last_error == "no"
    assert reschedule_jobs([job.id], priority=7, using="second")[0].priority == 7
    assert remove_job("k", using="second") is not None
    assert remove_job("k", using="second") is None
    kept = enqueue("say", using="second")
    assert [done.id for done in complete_jobs([kept.id], using="second")] == [kept.id]
    assert payloads("first") == ["b"]
    assert Job.objects.get().last_error is None


def test_a_transaction_counts_on_its_own_alias_only(second: Fresh) -> None:
    with transaction.atomic(using="second"):
        enqueue("say", "stays")
        enqueue("say", "goes", using="second")
        transaction.set_rollback(True, using="second")
    assert (payloads("first"), payloads("second")) == (["stays"], [])


def test_the_admin_shows_the_first_alias(second: Fresh) -> None:
    enqueue("say", "a", job_key="of the first")
    enqueue("say", "b", job_key="of the second", using="second")
    request = RequestFactory().get("/", {"q": "say"})
    request.user = User(username="a", is_superuser=True, is_staff=True, is_active=True)
    page: Any = admin.site._registry[Job].changelist_view(request)
    page.render()
    assert "of the first" in page.content.decode()
    assert "of the second" not in page.content.decode()


class ReplicaFirst:
    """What projects with a replica have: reads go there, and it is behind or, here, away."""

    def db_for_read(self, model: Any, **hints: Any) -> str:
        return "replica"

    def db_for_write(self, model: Any, **hints: Any) -> str:
        return "first"

    def allow_relation(self, *args: Any, **hints: Any) -> bool:
        return True


def test_nothing_of_the_queue_is_asked_of_a_replica(
    first: Fresh, settings: Settings, work: Work
) -> None:
    settings.DATABASE_ROUTERS = [ReplicaFirst()]
    with aliased("replica", NAME="there_is_no_such_database"):
        job = enqueue("say", "a", job_key="k", job_key_mode="unsafe_dedupe")
        assert enqueue("say", "b", job_key="k", job_key_mode="unsafe_dedupe").id == job.id
        assert Job.objects.get().task.identifier == "say"
        assert Task.objects.count() == 1
        assert not LockedJob.objects.locked().exists()
        request = RequestFactory().get("/", {"q": "say"})
        request.user = User(username="a", is_superuser=True, is_staff=True, is_active=True)
        page: Any = admin.site._registry[Job].changelist_view(request)
        page.render()
        assert "1 job" in page.content.decode()
        assert work() == ["a"]
        assert connections["replica"].connection is None


def test_beside_a_default_database_that_is_none_of_ours(
    first: Fresh, settings: Settings, work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lite = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "lite.db")}
    with aliased("lite", **lite, OPTIONS={}):
        # Django's own tables and what the project keeps, all in SQLite.
        call_command("migrate", database="lite", verbosity=0)
        tables = connections["lite"].introspection.table_names()
        assert [name for name in tables if "_private" in name or "graphile" in name] == []

        def count_users() -> None:
            counted.append(User.objects.using("lite").count())

        counted: list[int] = []
        User.objects.using("lite").create(username="a")
        monkeypatch.setattr(f"{COMMAND}.registry", register(count_users))
        enqueue("count_users")
        call_command("graphile_worker", once=True, verbosity=0, stdout=StringIO())
        assert counted == [1]
        call_command("migrate", "graphile_worker", "zero", database="lite", verbosity=0)
    assert first.schemas() == {settings.GRAPHILE_WORKER["SCHEMA"]}


def test_a_queue_is_not_looked_for_in_another_database(
    first: Fresh, settings: Settings, tmp_path: Path
) -> None:
    lite = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "lite.db")}
    with aliased("lite", **lite, OPTIONS={}):
        with pytest.raises(CommandError, match="SQLite"):
            call_command("graphile_worker", database="lite", once=True, verbosity=0)
        with pytest.raises(UnsupportedDatabase, match="'lite' is SQLite; the queue needs Postgre"):
            enqueue("say", using="lite")
    with pytest.raises(UnsupportedDatabase, match="no database alias 'nowhere'"):
        enqueue("say", using="nowhere")
