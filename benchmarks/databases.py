"""Two scratch databases on one server: with our schema, and with the published one."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql
from psycopg.types.string import TextLoader

from django_graphile_worker.sql.loader import quote
from tests import node

ROOT = Path(__file__).resolve().parents[1]
PUBLISHED_SCHEMA = "graphile_worker"

Connection = psycopg.Connection[Any]


@dataclass(frozen=True)
class Database:
    """A scratch database, and the name of the queue's schema in it."""

    url: str
    name: str

    @property
    def schema(self) -> str:
        """The schema's name, quoted."""
        return quote(self.name)

    def connect(self, *, synchronous_commit: str | None = None) -> Connection:
        """Open a session, in autocommit. Statements are prepared on their first use."""
        connection: Connection = psycopg.connect(self.url, autocommit=True)
        connection.prepare_threshold = 0
        # As text, so that Python's parser of JSON has no part in any of the times.
        for name in ("json", "jsonb"):
            connection.adapters.register_loader(name, TextLoader)
        if synchronous_commit is not None:
            connection.execute(
                "select set_config('synchronous_commit', %s, false)", [synchronous_commit]
            )
        return connection


@contextlib.contextmanager
def scratch(url: str, *, published: bool) -> Iterator[tuple[Database, Database | None]]:
    """Make the databases, ours by ``migrate``, the other by the npm package; drop them at the end.

    Raises ``SystemExit`` with a reason where the npm package is asked for and missing.
    """
    if published and (lack := node.missing()) is not None:
        raise SystemExit(f"{lack}; --without-published leaves the published functions out")
    names = [f"graphile_worker_bench_{os.getpid()}_{kind}" for kind in ("ours", "published")]
    if not published:
        names.pop()
    with psycopg.connect(url, autocommit=True) as connection:
        try:
            for name in names:
                connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
            ours = Database(renamed(url, names[0]), install(renamed(url, names[0])))
            theirs = None
            if published:
                theirs = Database(renamed(url, names[1]), PUBLISHED_SCHEMA)
                install_published(theirs.url)
            yield ours, theirs
        finally:
            for name in names:
                connection.execute(
                    sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name))
                )


def renamed(url: str, database: str) -> str:
    """The same URL for another database of the server."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{database}"))


def install(url: str) -> str:
    """Migrate a database as a project would; returns the schema's name."""
    run([sys.executable, str(ROOT / "testproject" / "manage.py"), "migrate"], DATABASE_URL=url)
    return os.environ.get("GRAPHILE_WORKER_SCHEMA", "graphile_worker")


def install_published(url: str) -> None:
    run([str(node.node()), str(node.graphile_worker()), "--schema-only", "-c", url])


def run(command: list[str], **environment: str) -> None:
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{command} failed:\n{done.stdout}{done.stderr}")
