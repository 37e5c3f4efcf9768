"""Connections of the worker's own, made from Django's `DATABASES` but outside of Django.

A part has one *link*, used in its own thread only. The link opens its connection when it is first
needed and again after a loss; how long to wait before that, it says itself.
"""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Iterator
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

    def connection(self) -> Connection:
        """Return the open connection, after opening it where there is none."""
        if self._connection is None:
            self._connection = connect(self.alias, self.part)
        return self._connection

    def run(self, statement: Statement[T]) -> T:
        """Send a statement and read its result. May raise one of `PASSING`."""
        with self.connection().cursor() as cursor:
            result = statement.run(cursor)
        self._pause = FIRST_PAUSE
        return result

    def run_after(self, first: Statement[Any], statement: Statement[T]) -> T:
        """Run two statements in one transaction and, where libpq can do that, one round trip.

        Returns the second one's result. May raise one of `PASSING`.
        """
        connection = self.connection()
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


def connect(alias: str, part: str) -> Connection:
    """Open a connection to Django's database `alias`.

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
        # Django puts the role on as it opens a connection; it is no parameter of libpq.
        if role := wrapper.settings_dict["OPTIONS"].get("assume_role"):
            with connection.cursor() as cursor:
                statements.set_role(role=role).run(cursor)
    except BaseException:
        connection.close()
        raise
    return connection


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
