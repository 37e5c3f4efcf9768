"""A PostgreSQL of a test's own, to be stopped and started under a worker's feet."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from testproject.postgres import oldest_for_django
from testproject.postgres_keeper import Cluster
from testproject.postgres_programs import find_binaries
from tests.fresh import ROOT
from tests.worker.tools import Queue

# A role that is no superuser, so that limits hold for it; it owns the database.
ROLE = "app"


class OwnServer:
    """A cluster with a database that holds the queue, for programs of their own."""

    def __init__(self) -> None:
        binaries = find_binaries(oldest_for_django())
        self.cluster = Cluster(
            {
                "bin": str(binaries.folder),
                "home": str(binaries.home),
                # Not careless about commits: the server's end is not to undo any.
                "settings": {"fsync": "off", "max_connections": "30"},
                "sync": False,
            }
        )
        self._sessions: list[psycopg.Connection[Any]] = []

    def make(self, schema: str) -> None:
        """Make and start it, with an empty queue in its database."""
        facts = self.cluster.start()
        self._admin = facts["url"]
        with self.admin() as session:
            session.execute(f"create role {ROLE} login password 'app'")
            session.execute(f"create database {ROLE} owner {ROLE}")
        environment = {"DATABASE_URL": self.url, "GRAPHILE_WORKER_SCHEMA": schema}
        subprocess.run(
            [sys.executable, "testproject/manage.py", "migrate", "graphile_worker", "-v", "0"],
            cwd=ROOT,
            env={**os.environ, **environment},
            check=True,
        )
        with self.admin() as session:
            session.execute(f"alter database {ROLE} rename to clean")

    def renew(self) -> None:
        """Be as it was when it was made."""
        with self.admin() as session:
            session.execute(f"alter role {ROLE} reset all")
            session.execute(f"alter role {ROLE} connection limit -1")
            session.execute(f"drop database if exists {ROLE} with (force)")
            session.execute(f"create database {ROLE} template clean owner {ROLE}")

    @property
    def url(self) -> str:
        of = conninfo_to_dict(self._admin)
        return f"postgresql://{ROLE}:app@{of['host']}:{of['port']}/{ROLE}"

    def admin(self) -> psycopg.Connection[Any]:
        """A superuser's session on the maintenance database; close it."""
        return psycopg.connect(self._admin, autocommit=True)

    def connect(self) -> psycopg.Connection[Any]:
        """A session on the database; closed in the end."""
        session = psycopg.connect(self.url, autocommit=True)
        self._sessions.append(session)
        return session

    def queue(self, schema: str) -> Queue:
        """The queue's tables, through a new session."""
        return Queue(self.connect(), schema)

    def stop(self, mode: str = "immediate") -> None:
        """Stop the server: `immediate` as a crash does, `fast` with an orderly end."""
        self.cluster.run("pg_ctl", "-w", "-s", "-m", mode, "stop")

    def start(self) -> None:
        """Start it again, and return once it takes connections."""
        self.cluster.run("pg_ctl", "-w", "-s", "-t", "60", "-l", str(self.cluster.log), "start")

    def become_standby(self) -> None:
        """Stop, and come back as a server that may only read."""
        self.stop("fast")
        signal = self.cluster.data / "standby.signal"
        signal.touch()
        self.cluster.give_away(signal)
        self.start()

    def promote(self) -> None:
        """Be one to write to again."""
        self.cluster.run("pg_ctl", "-w", "-s", "promote")

    def close(self) -> None:
        """Close the sessions that were opened here."""
        while self._sessions:
            self._sessions.pop().close()


@pytest.fixture(scope="module")
def _server(schema: str) -> Iterator[OwnServer]:
    server = OwnServer()
    try:
        server.make(schema)
        yield server
    finally:
        server.cluster.end()


@pytest.fixture
def own_server(_server: OwnServer) -> Iterator[OwnServer]:
    """A server whose database holds an empty queue."""
    _server.renew()
    yield _server
    _server.close()
