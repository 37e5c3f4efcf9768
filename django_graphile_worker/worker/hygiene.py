"""Leaves a thread's database connections clean between two jobs.

Django does this between requests. It also closes every connection that has no `CONN_MAX_AGE`; a
slot keeps its connections while they work, since a new one for each job costs 10 ms. Only the
connections that were opened in the thread are looked at: asking Django for them takes longer than
all that is done to one of them.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable
from typing import Any

from django.db import connections
from django.db.backends.signals import connection_created

logger = logging.getLogger("graphile_worker")

# What outlives its transaction: parameters, prepared statements, cursors, temporary tables. Tools
# that trace put comments before a statement.
_LEAVES_STATE = re.compile(
    r"""(?:\A|;)(?:\s|/\*.*?\*/|--[^\n]*\n)*(?:
        set\s+(?!local\b|transaction\b|constraints\b)|reset\b|discard\b|listen\b|do\b
        |prepare\s+(?!transaction\b)|declare\b|load\b
    )""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_MAKES_TEMPORARY = re.compile(
    r"\b(?:create|replace|into)\s+(?:local\s+|global\s+)?temp(?:orary)?\s", re.IGNORECASE
)


class _Thread(threading.local):
    sessions: dict[str, Session] | None = None


_thread = _Thread()


def before_job() -> None:
    """Drop connections that have died or grown old while the thread was idle. Never raises."""
    for session in _sessions():
        session.check()


def after_job() -> None:
    """End what a job has left behind on any alias.

    That is: transactions, settings of the session, query logs, broken connections. Never raises:
    whatever cannot be cleaned is dropped.
    """
    for session in _sessions():
        session.clean()


def close_connections() -> None:
    """Close all connections of this thread."""
    for session in _sessions():
        _drop(session.connection)
    for connection in connections.all(initialized_only=True):
        _drop(connection)
    _thread.sessions = None


def _sessions() -> tuple[Session, ...] | list[Session]:
    known = _thread.sessions
    if known is None:
        known = _thread.sessions = {}
        for connection in connections.all(initialized_only=True):
            if connection.connection is not None:
                known[connection.alias] = Session(connection)
    return list(known.values()) if known else ()


def _on_connected(*, connection: Any, **kwargs: object) -> None:
    known = _thread.sessions
    # Not a thread of ours, or a connection that somebody has made for himself.
    if known is None or connections[connection.alias] is not connection:
        return
    session = known.get(connection.alias)
    if session is not None and session.connection is connection:
        session.connected()
    else:
        known[connection.alias] = Session(connection)


connection_created.connect(_on_connected, dispatch_uid="django_graphile_worker.hygiene")


class Session:
    """A connection of this thread, seen between two jobs."""

    __slots__ = ("_is_postgresql", "_time_zone", "_touched", "connection")

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self._is_postgresql = connection.vendor == "postgresql"
        # At the bottom, since `connection.execute_wrapper()` takes away the uppermost at its end.
        connection.execute_wrappers.insert(0, self._look)
        self.connected()

    def connected(self) -> None:
        """Take note of how a new connection is."""
        self._touched = False
        self._time_zone: bytes | None = None
        if self._is_postgresql:
            self._time_zone = self.connection.connection.pgconn.parameter_status(b"TimeZone")

    def check(self) -> None:
        """Drop the connection if the server has hung up, or `CONN_MAX_AGE` is over."""
        connection = self.connection
        if connection.connection is None:
            return
        try:
            if self._is_dead() or self._is_old():
                _drop(connection)
        except BaseException:
            logger.exception("A connection to %r could not be looked at.", connection.alias)
            _drop(connection)

    def clean(self) -> None:
        """Leave the connection as a new one would be, or drop it."""
        connection = self.connection
        try:
            if connection.queries_log:
                connection.queries_log.clear()
            raw = connection.connection
            if raw is None:
                if connection.in_atomic_block:
                    _drop(connection)
                return
            if (
                connection.in_atomic_block
                or connection.needs_rollback
                or connection.autocommit != connection.settings_dict["AUTOCOMMIT"]
                or self._touched
                or (connection.errors_occurred and not self._works())
                or (self._is_postgresql and self._is_changed(raw.pgconn))
            ):
                if self._is_postgresql:
                    raw.close()  # or it would go back to the pool as it is, where there is one
                _drop(connection)
            elif connection.settings_dict["OPTIONS"].get("pool"):
                connection.close()  # which gives it back
            else:
                # Lets CONN_HEALTH_CHECKS look again when the next job first uses it.
                connection.health_check_done = False
        except BaseException:
            logger.exception("A connection to %r could not be cleaned.", connection.alias)
            _drop(connection)

    def _look(
        self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any
    ) -> Any:
        """See statements that leave something behind in the session: nothing tells afterwards."""
        text = sql if isinstance(sql, str) else _text(sql, self.connection)
        lower = text.lower()
        if _LEAVES_STATE.match(text) or (
            (";" in text and _LEAVES_STATE.search(text))
            or "set_config" in lower
            or "pg_advisory_lock" in lower
            or "pg_try_advisory_lock" in lower
            or ("temp" in lower and _MAKES_TEMPORARY.search(text))
        ):
            self._touched = True
        return execute(sql, params, many, context)

    def _works(self) -> bool:
        """Whether it still works after a database error; costs a round trip."""
        if not self.connection.is_usable():
            return False
        self.connection.errors_occurred = False
        return True

    def _is_changed(self, pgconn: Any) -> bool:
        """Whether a transaction is open that Django does not know of, or the clock set anew."""
        return bool(
            (pgconn.transaction_status and self.connection.autocommit)
            or pgconn.parameter_status(b"TimeZone") != self._time_zone
        )

    def _is_dead(self) -> bool:
        """Whether the server has hung up. Sends nothing, and does not let another thread run."""
        if not self._is_postgresql:
            return False
        pgconn = self.connection.connection.pgconn
        try:
            # Reads what has come, without waiting: first the server's last words, then the end.
            pgconn.consume_input()
            pgconn.consume_input()
        except self.connection.Database.Error:
            return True
        return bool(pgconn.status)

    def _is_old(self) -> bool:
        """Whether CONN_MAX_AGE is over. 0, Django's default, would mean a new one each time."""
        connection = self.connection
        return bool(
            connection.close_at is not None
            and connection.settings_dict["CONN_MAX_AGE"]
            and time.monotonic() >= connection.close_at
        )


def _text(sql: Any, connection: Any) -> str:
    """Return the text of a statement that is no `str`, such as one of `psycopg.sql`."""
    try:
        return str(sql.as_string(connection.connection))
    except Exception:  # noqa: BLE001 - whoever executes it will say what is wrong with it
        return str(sql)


def _drop(connection: Any) -> None:
    """Close a connection, whatever its state, and let Django make a new wrapper for it.

    A wrapper that was left inside `atomic()` would refuse to connect again.
    """
    try:
        connection.close()
    except BaseException:
        logger.exception("A connection to %r could not be closed.", connection.alias)
    known = _thread.sessions
    if known is not None:
        known.pop(connection.alias, None)
    try:
        if connections[connection.alias] is connection:
            del connections[connection.alias]
    except AttributeError:
        pass
