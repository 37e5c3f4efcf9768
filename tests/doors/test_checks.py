"""The system checks find what is wrong before anything runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.checks import CheckMessage, run_checks
from django.db.backends.postgresql import psycopg_any

from django_graphile_worker.conf import get_config
from tests.fresh import aliased


def found() -> list[CheckMessage]:
    """What our checks say. They ask no database: the tests here are not allowed one."""
    return [
        message
        for message in run_checks(tags=["graphile_worker"])
        if str(message.id).startswith("graphile_worker.")
    ]


@pytest.fixture
def queues(settings: Any) -> Any:
    """Let other aliases hold the queue."""

    def use(*aliases: str) -> None:
        settings.GRAPHILE_WORKER = {"DATABASES": list(aliases), "SCHEMA": get_config().schema}

    return use


@pytest.fixture
def sqlite() -> Iterator[str]:
    with aliased("lite", ENGINE="django.db.backends.sqlite3", NAME=":memory:"):
        yield "lite"


def test_all_is_well() -> None:
    assert found() == []


def test_graphile_worker_E001_for_an_unknown_alias(queues: Any) -> None:
    queues("default", "nowhere")
    (error,) = found()
    assert error.id == "graphile_worker.E001"
    assert error.level >= 40
    assert "'nowhere'" in error.msg


def test_graphile_worker_E001_for_another_database(queues: Any, sqlite: str) -> None:
    queues(sqlite, "nowhere")
    first, second = found()
    assert {first.id, second.id} == {"graphile_worker.E001"}
    assert "'lite' is SQLite" in first.msg


def test_graphile_worker_E001_for_the_old_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psycopg_any, "is_psycopg3", False)
    (error,) = found()
    assert error.id == "graphile_worker.E001"
    assert "psycopg2" in error.msg


def test_an_alias_that_holds_no_queue_may_be_anything(sqlite: str) -> None:
    assert found() == []
