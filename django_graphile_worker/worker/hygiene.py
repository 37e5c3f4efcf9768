"""Leaves a thread's Django state clean between two jobs.

Django does this between requests. It also closes every connection that has no `CONN_MAX_AGE`; a
slot keeps its connections while they work, since a new one for each job costs 10 ms.
"""

from __future__ import annotations

import contextlib
import logging
import select
import time
from typing import Any

from django.db import connections

logger = logging.getLogger("graphile_worker")


def before_job() -> None:
    """Drop connections that have died or grown old while the thread was idle."""
    for connection in _opened():
        if _is_dead(connection) or _is_old(connection):
            _drop(connection)


def after_job() -> None:
    """End what a job has left behind on any alias: transactions, query logs, broken connections.

    Never raises: whatever cannot be cleaned is dropped.
    """
    connection: Any
    for connection in connections.all(initialized_only=True):
        try:
            connection.queries_log.clear()
            if _is_unclean(connection) or connection.settings_dict["OPTIONS"].get("pool"):
                _drop(connection)
            # Lets CONN_HEALTH_CHECKS look again when the next job first uses it.
            connection.health_check_done = False
        except BaseException:
            logger.exception("A connection to %r could not be cleaned.", connection.alias)
            _drop(connection)


def close_connections() -> None:
    """Close all connections of this thread."""
    for connection in connections.all(initialized_only=True):
        _drop(connection)


def _opened() -> list[Any]:
    return [
        connection
        for connection in connections.all(initialized_only=True)
        if connection.connection is not None
    ]


def _is_unclean(connection: Any) -> bool:
    """Whether a job left a transaction open, or the connection does not work any more."""
    if connection.connection is None:
        return bool(connection.in_atomic_block)
    return bool(
        connection.in_atomic_block
        or connection.needs_rollback
        or connection.autocommit != connection.settings_dict["AUTOCOMMIT"]
        or _is_in_transaction(connection)
        or not _works(connection)
    )


def _works(connection: Any) -> bool:
    """Whether the connection still works; costs a round trip only after a database error."""
    if connection.errors_occurred:
        if not connection.is_usable():
            return False
        connection.errors_occurred = False
    return True


def _is_in_transaction(connection: Any) -> bool:
    """Whether a transaction is open that Django does not know of, such as one by a raw BEGIN."""
    if connection.vendor != "postgresql" or not connection.autocommit:
        return False
    return bool(connection.connection.info.transaction_status)


def _is_dead(connection: Any) -> bool:
    """Whether the server has hung up. Costs a round trip only where it has said something."""
    if connection.vendor != "postgresql":
        return False
    if connection.connection.closed:
        return True
    # An idle server is silent; its last words, or the end of the stream, make the socket readable.
    return _is_readable(connection.connection.fileno()) and not connection.is_usable()


def _is_readable(socket: int) -> bool:
    if not hasattr(select, "poll"):  # Windows, whose select() takes any number
        return bool(select.select([socket], [], [], 0)[0])
    poll = select.poll()
    poll.register(socket, select.POLLIN)
    return bool(poll.poll(0))


def _is_old(connection: Any) -> bool:
    """Whether CONN_MAX_AGE is over. 0, Django's default, would mean a new connection each time."""
    return bool(
        connection.settings_dict["CONN_MAX_AGE"]
        and connection.close_at is not None
        and time.monotonic() >= connection.close_at
    )


def _drop(connection: Any) -> None:
    """Close a connection, whatever its state, and let Django make a new wrapper for it.

    A wrapper that was left inside `atomic()` would refuse to connect again.
    """
    try:
        connection.close()
    except BaseException:
        logger.exception("A connection to %r could not be closed.", connection.alias)
    with contextlib.suppress(AttributeError):
        del connections[connection.alias]
