"""Connections of the worker's own, made from Django's `DATABASES` but outside of Django.

A part has one *link*, used in its own thread only. The link opens its connection when it is first
needed and again after a loss; how long to wait before that, it says itself.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, TypeVar

import psycopg
from django.db import connections
from django.db.backends.postgresql.psycopg_any import is_psycopg3
from psycopg.pq import TransactionStatus

from django_graphile_worker.exceptions import UnsupportedDatabase
from django_graphile_worker.statements import sessions as statements
from django_graphile_worker.statements.base import Statement
from django_graphile_worker.worker.outages import outages

T = TypeVar("T")

Connection = psycopg.Connection[tuple[Any, ...]]

# Gives the statement that makes settings, for one transaction only (`True`) or for the session.
Settings = Callable[[bool], Statement[None]]

# What may pass by itself: a lost or refused connection, too many of them, a deadlock, a
# serialization failure, a timeout, a server that is read-only for now. Anything else is a fault,
# and ends the part.
PASSING = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg.errors.ReadOnlySqlTransaction,
    psycopg.errors.IdleInTransactionSessionTimeout,
    # Of PostgreSQL 17; not every psycopg has a name for it.
    getattr(psycopg.errors, "TransactionTimeout", psycopg.OperationalError),
)

# Seconds between two tries: doubled up to the longest, and each shortened by chance to as little as
# half, so that many workers do not come back at the same moment.
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0

# A peer that is gone without a word is found out within these: else a listening connection would
# wait for hours, and a statement on its way for a quarter of one. OPTIONS may say otherwise.
WATCHFUL = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}


class Link:
    """One part's connection to the database `alias`, in autocommit.

    Whatever a role or a database has set as defaults, statements run in READ COMMITTED, may write,
    and are not ended after less than a minute.
    """

    def __init__(self, alias: str, part: str) -> None:
        self.alias = alias
        self.part = part
        self._connection: Connection | None = None
        self._pause = FIRST_PAUSE
        self._failing = False
        # Whether nobody stands between us and our backend, and what was set in it for good.
        self.direct = False
        self._prepared: Settings | None = None

    def connection(self) -> Connection:
        """Return the open connection, after opening it where there is none."""
        if self._connection is None:
            self._connection, self.direct = connect(self.alias, self.part)
            self._prepared = None
        return self._connection

    def open_early(self) -> None:
        """Open the connection before it is needed. If that fails, the first use says so."""
        with suppress(*PASSING):
            self.connection()

    def run(self, statement: Statement[T]) -> T:
        """Send a statement and read its result. May raise one of `PASSING`."""
        connection = self.connection()
        if not self.direct and connection.info.transaction_status == TransactionStatus.IDLE:
            return self._run_after([settle(True)], statement)
        # Binary: cheaper to read, and it says the same whatever the DateStyle.
        with connection.cursor(binary=True) as cursor:
            statement.send(cursor)
            result = statement.read(cursor.fetchall())
        self._succeeded()
        return result

    def run_prepared(self, settings: Settings, statement: Statement[T]) -> T:
        """Run a statement under `settings`. May raise one of `PASSING`.

        On a connection of its own they are set once, and the statement is one round trip. Through
        a pooler all goes in one transaction and, where libpq can do that, in one round trip too.
        `settings` are told from others by being the same object.
        """
        self.connection()
        if not self.direct:
            return self._run_after([settle(True), settings(True)], statement)
        if self._prepared is not settings:
            self.run(settings(False))
            self._prepared = settings
        return self.run(statement)

    def send(self, statement: Statement[None]) -> None:
        """Send a statement that gives no rows. May raise one of `PASSING`."""
        with self.connection().cursor() as cursor:
            statement.send(cursor)
        self._succeeded()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """One transaction for all that is run inside."""
        connection = self.connection()
        with connection.transaction():
            if not self.direct:
                self.run(settle(True))
            yield

    def pause(self, error: BaseException) -> float:
        """Tell of an error that may pass, and drop the connection if it is of no use any more.

        Returns the seconds to wait before the next try, from 0.05 up to 2.
        """
        self._failing = True
        outages.failed(self, self.part, error)
        # Where the server may only read now, another one has perhaps become the one to write to.
        if self._connection is not None and (
            self._connection.closed or isinstance(error, psycopg.errors.ReadOnlySqlTransaction)
        ):
            self._drop()
        seconds = self._pause * random.uniform(0.5, 1)  # noqa: S311
        self._pause = min(LONGEST_PAUSE, self._pause * 2)
        return seconds

    def close(self) -> None:
        """Close the connection, if there is one; the link may be used again."""
        outages.gone(self)
        self._failing = False
        self._drop()

    def _drop(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.close()

    def _succeeded(self) -> None:
        if self._failing:
            self._failing = False
            self._pause = FIRST_PAUSE
            outages.works(self)

    def _run_after(self, settings: list[Statement[None]], statement: Statement[T]) -> T:
        connection = self.connection()
        pipeline = connection.pipeline() if psycopg.Pipeline.is_supported() else nullcontext()
        with connection.cursor(binary=True) as cursor:
            with pipeline, connection.transaction():
                for each in settings:
                    each.send(connection.cursor())
                statement.send(cursor)
            result = statement.read(cursor.fetchall())
        self._succeeded()
        return result


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
    connection = psycopg.connect(**{**WATCHFUL, **parameters}, autocommit=True)
    connection.cursor_factory = psycopg.RawCursor
    try:
        # For transactions that we begin ourselves; the others follow the session's default.
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        connection.read_only = False
        direct = _is_direct(connection)
        with connection.cursor() as cursor:
            if direct:
                settle(False).send(cursor)
                if "prepare_threshold" not in wrapper.settings_dict["OPTIONS"]:
                    connection.prepare_threshold = 0
            # Django puts the role on as it opens a connection; it is no parameter of libpq.
            if role := wrapper.settings_dict["OPTIONS"].get("assume_role"):
                statements.set_role(role=role).send(cursor)
    except BaseException:
        connection.close()
        raise
    return connection, direct


def settle(local: bool) -> Statement[None]:
    """Put right what our statements do not bear; for one transaction (`local`) or the session."""
    return statements.settle_session(local=local)


def _is_direct(connection: Connection) -> bool:
    """Whether our backend is the one that we were told of at the start.

    A pooler invents the number that it gives its clients for cancelling.
    """
    with connection.cursor() as cursor:
        backend = statements.get_backend()
        backend.send(cursor)
        return backend.read(cursor.fetchall()) == connection.info.backend_pid


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
