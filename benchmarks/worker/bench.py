"""What all cases share: a server, scratch databases on it, and how long to measure."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from psycopg import sql

from benchmarks.databases import (
    PUBLISHED_SCHEMA,
    Database,
    install,
    install_published,
    renamed,
    run,
)
from benchmarks.machine import Watch
from benchmarks.worker.queue import Queue
from benchmarks.worker.sides import manage, on_path

# What procrastinate needs beside Django and psycopg, which are taken as they are installed here.
PROCRASTINATE = (
    "procrastinate==3.10.0",
    "psycopg-pool",
    "attrs",
    "croniter",
    "packaging",
    "python-dateutil",
    "six",
)
PROCRASTINATE_SETTINGS = "benchmarks.project.procrastinate_settings"


@dataclass
class Bench:
    """Databases and peers are made when they are first asked for."""

    url: str
    rounds: int
    jobs: int
    times: int
    node: bool
    folder: Path
    stack: contextlib.ExitStack
    queues: dict[str, Queue] = field(default_factory=dict)

    def __post_init__(self) -> None:
        connection = psycopg.connect(self.url, autocommit=True)
        self.stack.callback(connection.close)
        self._admin = connection
        self.watch = Watch(connection.info.backend_pid)

    def ours(self, name: str = "ours") -> Queue:
        """A database with this package's schema."""
        return self._queue(name, lambda url: Database(url, install(url)))

    def published(self) -> Queue:
        """A database with the schema of the npm package."""

        def make(url: str) -> Database:
            install_published(url)
            return Database(url, PUBLISHED_SCHEMA)

        return self._queue("published", make)

    def procrastinate(self) -> str:
        """The URL of a database with the tables of procrastinate."""

        def make(url: str) -> Database:
            run(
                manage("migrate"),
                DATABASE_URL=url,
                DJANGO_SETTINGS_MODULE=PROCRASTINATE_SETTINGS,
                **on_path(self.peers),
            )
            return Database(url, "public")

        return self._queue("procrastinate", make).url

    @property
    def peers(self) -> Path:
        return self.folder / "peers"

    def get_procrastinate(self) -> str | None:
        """Install procrastinate for this run; return what went wrong."""
        if self.peers.exists():
            return None
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
        try:
            run([*pip, str(self.peers), *PROCRASTINATE])
        except SystemExit as failed:
            return str(failed).strip().splitlines()[-1]
        return None

    def _queue(self, kind: str, make: Callable[[str], Database]) -> Queue:
        if kind not in self.queues:
            name = f"graphile_worker_bench_{os.getpid()}_{kind}"
            self._admin.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
            self.stack.callback(self._drop, name)
            self.queues[kind] = queue = Queue(make(renamed(self.url, name)))
            self.stack.callback(queue.close)
        return self.queues[kind]

    def _drop(self, name: str) -> None:
        self._admin.execute(
            sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name))
        )


@contextlib.contextmanager
def open_bench(url: str, *, rounds: int, jobs: int, times: int, node: bool) -> Iterator[Bench]:
    """Yield a bench, and leave nothing of it behind."""
    with (
        tempfile.TemporaryDirectory(prefix="graphile-worker-bench-") as folder,
        contextlib.ExitStack() as stack,
    ):
        yield Bench(url, rounds, jobs, times, node, Path(folder), stack)
