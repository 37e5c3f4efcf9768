"""Two databases: one that `manage.py migrate` has made, one that Graphile Worker has."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
from django.test import override_settings
from pytest_django import DjangoDbBlocker

from tests import node
from tests.compatibility.fleet import RUNS, Fleet, package
from tests.fresh import SCHEMA, Fresh, database
from tests.fresh import fresh as fresh
from tests.fresh import in_thread as in_thread
from tests.fresh import manage as manage
from tests.worker.conftest import queue as queue
from tests.worker.tools import Queue


class Both(NamedTuple):
    ours: Fresh
    theirs: Fresh


class Sessions(NamedTuple):
    """A session on each, in a transaction that is undone when the test ends."""

    ours: psycopg.Connection[Any]
    theirs: psycopg.Connection[Any]


def graphile_worker(folder: Path, *arguments: str, version: str = "0.18") -> str:
    """Run Graphile Worker's program in a folder, where its tasks may be; return what it prints."""
    program = [node.node(), package(version) / "cli.js", *arguments]
    ended = subprocess.run(
        [str(part) for part in program],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


@pytest.fixture(scope="package")
def both(
    django_db_blocker: DjangoDbBlocker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Both]:
    here = {"DATABASES": ["ours"], "SCHEMA": SCHEMA}
    with (
        django_db_blocker.unblock(),
        database("ours") as ours,
        database("theirs") as theirs,
    ):
        with override_settings(GRAPHILE_WORKER=here):
            ours.migrate()
        graphile_worker(
            tmp_path_factory.mktemp("node"),
            *("--schema-only", "--connection", theirs.url, "--schema", SCHEMA),
        )
        yield Both(ours, theirs)


@pytest.fixture
def sessions(both: Both) -> Iterator[Sessions]:
    with (
        psycopg.connect(both.ours.address) as ours,
        psycopg.connect(both.theirs.address) as theirs,
        ours.transaction(force_rollback=True),
        theirs.transaction(force_rollback=True),
    ):
        yield Sessions(ours, theirs)


@pytest.fixture
def fleet(queue: Queue, dsn: str, schema: str) -> Iterator[Fleet]:
    """Workers of both kinds on the test's queue; those that still run at its end are killed."""
    queue.query(RUNS)
    fleet = Fleet(queue, dsn, schema)
    try:
        yield fleet
    finally:
        fleet.close()
        queue.query("drop table runs, carried")
