"""Databases of their own, for tests that install the schema, take it down or break it."""

from __future__ import annotations

import copy
import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.db import connections
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pytest_django import DjangoDbBlocker, Settings

from tests import catalog

ROOT = Path(__file__).resolve().parents[1]

InThread = Callable[..., "Future[None]"]

_numbers = itertools.count(1)

# Django's default, and the name that the catalogs are compared under.
SCHEMA = "graphile_worker"


@dataclass
class Fresh:
    """An empty database, which Django knows by `alias` and where nothing is installed yet."""

    alias: str
    name: str
    _opened: list[psycopg.Connection[Any]] = field(default_factory=list)
    _roles: list[str] = field(default_factory=list)

    @property
    def address(self) -> str:
        return make_conninfo(os.environ["DATABASE_URL"], dbname=self.name)

    @property
    def url(self) -> str:
        """The same as a URL, for Django in another process and for Node."""
        of = conninfo_to_dict(os.environ["DATABASE_URL"])
        password = f":{of['password']}" if of.get("password") else ""
        where = f"{of.get('host', 'localhost')}:{of.get('port', 5432)}"
        return f"postgresql://{of['user']}{password}@{where}/{self.name}"

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        """Open a session in autocommit; it is closed when the test ends."""
        connection = psycopg.connect(self.address, autocommit=True, **options)
        self._opened.append(connection)
        return connection

    def make_role(self) -> str:
        """Make a role without any privilege; it goes after the database that it was used in."""
        name = f"test_role_{os.getpid()}_{next(_numbers)}"
        maintain("create role {}", name)
        self._roles.append(name)
        return name

    def migrate(self, *target: str) -> None:
        """What `manage.py migrate graphile_worker [target]` does, in this process."""
        call_command("migrate", "graphile_worker", *target, database=self.alias, verbosity=0)

    def run(self, text: str, *params: Any) -> list[tuple[Any, ...]]:
        """Run a statement with `{}` for the schema in a session of its own; return its rows."""
        with psycopg.connect(self.address, autocommit=True) as connection:
            statement = sql.SQL(text.replace("{}", "{schema}")).format(
                schema=sql.Identifier(SCHEMA)
            )
            cursor = connection.execute(statement, params or None)
            return cursor.fetchall() if cursor.description else []

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """The rows of a table of the queue, in the order of its first column."""
        return self.run(f"select * from {{}}.{table} order by 1")

    def facts(self, schema: str = SCHEMA) -> dict[str, str]:
        """What the catalogs say of the schema."""
        with psycopg.connect(self.address, autocommit=True) as connection:
            return catalog.describe(connection, schema)

    def schemas(self) -> set[str]:
        """The schemas that somebody has made here."""
        rows = self.run(
            "select nspname from pg_namespace where nspname !~ '^pg_'"
            " and nspname not in ('information_schema', 'public')"
        )
        return {name for (name,) in rows}


class Manage:
    """Runs `manage.py` in processes of their own, on a fresh database."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen[str]] = []

    def start(self, fresh: Fresh, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-W", "error", "testproject/manage.py", *arguments],
            cwd=ROOT,
            env={**os.environ, "DATABASE_URL": fresh.url, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._started.append(process)
        return process

    def output(self, process: subprocess.Popen[str]) -> str:
        """Wait for the end of a process that is to succeed; return what it has printed."""
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0, output
        return output

    def __call__(self, fresh: Fresh, *arguments: str, **environment: str) -> str:
        return self.output(self.start(fresh, *arguments, **environment))

    def end(self) -> None:
        for process in self._started:
            with process:
                process.kill()


def maintain(text: str, *names: str) -> None:
    """Run a statement on the server, outside of any database that a test uses."""
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        connection.execute(sql.SQL(text).format(*map(sql.Identifier, names)))


@contextmanager
def database(alias: str, **options: Any) -> Iterator[Fresh]:
    """Make a database, and an alias for it with `OPTIONS`; take both away in the end."""
    fresh = Fresh(alias, f"test_fresh_{os.getpid()}_{next(_numbers)}")
    maintain("create database {}", fresh.name)
    try:
        with aliased(alias, NAME=fresh.name, OPTIONS=options):
            yield fresh
    finally:
        for connection in fresh._opened:
            connection.close()
        maintain("drop database {} with (force)", fresh.name)
        for role in fresh._roles:
            maintain("drop role {}", role)


@contextmanager
def aliased(alias: str, **changes: Any) -> Iterator[None]:
    """Give Django another alias: the default database's settings with changes."""
    configured = copy.deepcopy(connections.settings["default"]) | changes
    connections.settings[alias] = configured
    try:
        yield
    finally:
        connections[alias].close()
        del connections[alias]
        del connections.settings[alias]


def hold_queue(settings: Settings, *aliases: str, schema: str = SCHEMA) -> None:
    """Let the aliases be those that hold a queue."""
    settings.GRAPHILE_WORKER = {"DATABASES": list(aliases), "SCHEMA": schema}


@pytest.fixture
def fresh(settings: Settings, django_db_blocker: DjangoDbBlocker) -> Iterator[Fresh]:
    """An empty database that is to hold the queue, known to Django by the alias `fresh`."""
    hold_queue(settings, "fresh")
    with django_db_blocker.unblock(), database("fresh") as made:
        yield made


@pytest.fixture
def in_thread(django_db_blocker: DjangoDbBlocker) -> Iterator[InThread]:
    """Migrate in a thread of its own, with a connection of its own."""
    with ThreadPoolExecutor(5) as pool:

        def migrate(fresh: Fresh, *target: str) -> None:
            with django_db_blocker.unblock():
                try:
                    fresh.migrate(*target)
                finally:
                    connections.close_all()

        yield lambda fresh, *target: pool.submit(migrate, fresh, *target)


@pytest.fixture
def manage() -> Iterator[Manage]:
    manage = Manage()
    yield manage
    manage.end()
