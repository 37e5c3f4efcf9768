"""Connections of the worker's own, made from Django's `DATABASES` but outside of Django.

A part has one *link*, used in its own thread only. The link opens its connection when it is first
needed and again after a loss; how long to wait before that, it says itself.
"""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

import psycopg
from django.db import connections
from django.db.backends.postgresql.psycopg_any import is_psycopg3

from django_graphile_worker.exceptions import UnsupportedDatabase
from django_graphile_worker.statements import worker as statements
from django_graphile_worker.statements.base import Statement

logger = logging.getLogger("graphile_worker")

T = TypeVar("T")

Connection = psycopg.Connection[tuple[Any, ...]]

# Gives the statement that makes settings, for one transaction only (`True`) or for the session.
Settings = Callable[[bool], Statement[None]]

# What may pass by itself: a lost or refused connection, a deadlock, a serialization failure, a
# timeout, a server that is read-only for now. Anything else is a fault, and ends the part.
PASSING = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg.errors.ReadOnlySqlTransaction,
)

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0


class Link:
    """One part's connection to the database `alias`, in autocommit."""

    def __init__(self, alias: str, part: str) -> None:
        self.alias = alias
        self.part = part
        self._connection: Connection | None = None
        self._pause = FIRST_PAUSE
        # Whether nobody stands between us and our backend, and what was set in it for good.
        self.direct = False
        self._prepared: Settings | None = None

    def connection(self) -> Connection:
        """Return the open connection, after opening it where there is none."""
        if self._connection is None:
            self._connection, self.direct = connect(self.alias, self.part)
            self._prepared = None
        return self._connection

    def run(self, statement: Statement[T]) -> T:
        """Send a statement and read its result. May raise one of `PASSING`."""
        with self.connection().cursor() as cursor:
            result = statement.run(cursor)
        self._pause = FIRST_PAUSE
        return result

    def run_prepared(self, settings: Settings, statement: Statement[T]) -> T:
        """Run a statement under `settings`. May raise one of `PASSING`.

        On a connection of its own they are set once, and the statement is one round trip. Through
        a pooler both go in one transaction and, where libpq can do that, in one round trip too.
        """
        connection = self.connection()
        if self.direct:
            if self._prepared is not settings:
                self.run(settings(False))
                self._prepared = settings
            return self.run(statement)
        first = settings(True)
        pipeline = connection.pipeline() if psycopg.Pipeline.is_supported() else nullcontext()
        with connection.cursor() as cursor:
            with pipeline, connection.transaction():
                connection.execute(first.text, first.params)
                cursor.execute(statement.text, statement.params)
            result = statement.read(cursor.fetchall())
        self._pause = FIRST_PAUSE
        return result

    def send(self, statement: Statement[None]) -> None:
        """Send a statement that gives no rows. May raise one of `PASSING`."""
        self.connection().execute(statement.text, statement.params)
        self._pause = FIRST_PAUSE

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """One transaction for all that is run inside."""
        with self.connection().transaction():
            yield

    def pause(self, error: BaseException) -> float:
        """Log an error that may pass and drop the connection if it is broken.

        Returns the seconds to wait before the next try: from 0.1 up to 5, with jitter, so that many
        workers do not come back at the same moment.
        """
        logger.warning("The %s will try again: %s", self.part, str(error).strip())
        if self._connection is not None and self._connection.broken:
            self.close()
        seconds = self._pause * random.uniform(0.5, 1)  # noqa: S311
        self._pause = min(LONGEST_PAUSE, self._pause * 2)
        return seconds

    def close(self) -> None:
        """Close the connection, if there is one; the link may be used again."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.close()


def connect(alias: str, part: str) -> tuple[Connection, bool]:
    """Open a connection to Django's database `alias`; also tell whether it is a direct one.

    Behind a pooler the next statement may meet another backend: nothing is prepared there and no
    setting outlives its transaction. On a direct connection statements are prepared, unless
    `OPTIONS["prepare_threshold"]` says otherwise: planning a fetch takes longer than running it.

    Raises `UnsupportedDatabase` where that is not PostgreSQL through psycopg 3.
    """
    wrapper = connections[alias]
    check(alias)
    parameters: dict[str, Any] = wrapper.get_connection_params()
    # Django's own cursor and its adapters: they read times by USE_TZ and leave json to Django.
    for name in ("cursor_factory", "context"):
        parameters.pop(name, None)
    parameters.setdefault("application_name", f"graphile_worker {part} {os.getpid()}")
    parameters.setdefault("connect_timeout", 10)
    connection = psycopg.connect(**parameters, autocommit=True)
    try:
        direct = _is_direct(connection)
        if direct and "prepare_threshold" not in wrapper.settings_dict["OPTIONS"]:
            connection.prepare_threshold = 0
        # Django puts the role on as it opens a connection; it is no parameter of libpq.
        if role := wrapper.settings_dict["OPTIONS"].get("assume_role"):
            with connection.cursor() as cursor:
                statements.set_role(role=role).run(cursor)
    except BaseException:
        connection.close()
        raise
    return connection, direct


def _is_direct(connection: Connection) -> bool:
    """Whether our backend is the one that we were told of at the start.

    A pooler invents the number that it gives its clients for cancelling.
    """
    with connection.cursor() as cursor:
        return statements.get_backend().run(cursor) == connection.info.backend_pid


def check(alias: str) -> None:
    """Raise `UnsupportedDatabase` where `alias` is not PostgreSQL through psycopg 3."""
    wrapper = connections[alias]
    if wrapper.vendor != "postgresql":
        raise UnsupportedDatabase(
            f"The database {alias!r} is {wrapper.display_name}; the queue needs PostgreSQL."
        )
    if not is_psycopg3:
        raise UnsupportedDatabase(
            f"The database {alias!r} is used through psycopg 2; the queue needs psycopg 3."
        )
