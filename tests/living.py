"""Workers that count as alive, for tests that speak for them."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql

from django_graphile_worker.worker.identity import Identity

ME = "django:test:1:me"
NAMES = (ME, "somebody", "worker", "the next one")


def enlist(session: psycopg.Connection[Any], schema: str, *names: str) -> None:
    """Write workers down that nobody takes for dead while a test runs."""
    session.execute(
        sql.SQL(
            "insert into {} (worker_id, host, pid, concurrency, heartbeat, stale_after)"
            " select unnest(%s::text[]), 'test', 1, 10, '1 s', '1 day' on conflict do nothing"
        ).format(sql.Identifier(schema, "django_workers")),
        [list(names)],
    )


def identity(worker_id: str | None = ME) -> Identity:
    """The identity of a pool that has registered under that name."""
    made = Identity()
    made.worker_id = worker_id
    return made
