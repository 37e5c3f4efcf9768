"""The caller's own connection: its transaction if it is in one, else one of ours, tried again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

from django.db import OperationalError, connections, transaction
from django.utils.connection import ConnectionDoesNotExist

from django_graphile_worker.conf import get_config
from django_graphile_worker.exceptions import UnsupportedDatabase

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

T = TypeVar("T")

# deadlock_detected and serialization_failure: the transaction was undone whole, and is sound if it
# is simply done again. Our own calls deadlock with each other only around a cleanup of names, and
# with Node's batch completion at any time.
RETRIED = ("40P01", "40001")
TRIES = 6


def alias(using: str | None) -> str:
    """Return the database alias that a call uses."""
    return get_config().databases[0] if using is None else using


def run(using: str | None, work: Callable[[Any], T], *, atomic: bool = False) -> T:
    """Call `work` with a cursor and return its result.

    Inside a transaction of the caller it runs there, without a savepoint, and every error is the
    caller's. Outside of one, it is tried again after a deadlock or a serialization failure, up to
    five times; `atomic` then makes one transaction of all its statements.

    Raises `UnsupportedDatabase` for an alias that is not PostgreSQL through psycopg 3.
    """
    name = alias(using)
    connection = queue_connection(name)
    # Without autocommit the caller commits, so the transaction is theirs, too.
    if connection.in_atomic_block or not connection.get_autocommit():
        with connection.cursor() as cursor:
            return work(cursor)
    tries = 0
    while True:
        try:
            whole = transaction.atomic(using=name) if atomic else nullcontext()
            with whole, connection.cursor() as cursor:
                return work(cursor)
        except OperationalError as error:
            tries += 1
            if tries == TRIES or getattr(error.__cause__, "sqlstate", None) not in RETRIED:
                raise
        # Jitter, or two that met would meet again: up to 20, 40, 80, 160, 320 ms.
        time.sleep(random.uniform(0, 0.01 * 2**tries))  # noqa: S311


def queue_connection(name: str) -> BaseDatabaseWrapper:
    """Return Django's connection of an alias, opened or not; raises `UnsupportedDatabase`."""
    try:
        connection = connections[name]
    except ConnectionDoesNotExist:
        raise UnsupportedDatabase(
            f"There is no database alias {name!r} in settings.DATABASES; "
            'using= or GRAPHILE_WORKER["DATABASES"] names it.'
        ) from None
    if connection.vendor != "postgresql":
        raise UnsupportedDatabase(
            f"The database {name!r} is {connection.display_name}; the queue needs PostgreSQL. "
            'Name its alias in GRAPHILE_WORKER["DATABASES"], or with using=.'
        )
    # Only now: without a driver for PostgreSQL this import fails.
    from django.db.backends.postgresql.psycopg_any import is_psycopg3

    if not is_psycopg3:
        raise UnsupportedDatabase(
            f"The database {name!r} is reached through psycopg2; the queue needs psycopg 3: "
            "install psycopg>=3.2 (Django prefers it when both are there)."
        )
    return connection
