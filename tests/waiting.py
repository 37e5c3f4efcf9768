"""Waiting for facts. Every wait here is bounded and says what it waited for in vain."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

import psycopg

T = TypeVar("T")

# Between two looks. Small beside any statement that a test waits for.
PAUSE = 0.01


def eventually(assertion: Callable[[], T], within: float = 5) -> T:
    """Call ``assertion`` until it raises no ``AssertionError`` and return what it returned.

    After ``within`` seconds its last ``AssertionError`` is let through.
    """
    deadline = time.monotonic() + within
    while True:
        try:
            return assertion()
        except AssertionError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(PAUSE)


def wait_until_blocked(
    observer: psycopg.Connection[Any],
    pid: int,
    *,
    by: int | None = None,
    within: float = 5,
) -> list[int]:
    """Wait until the backend ``pid`` waits on a lock; returns the pids that hold it up.

    With ``by`` it must be that backend, among others perhaps. ``observer`` is a third session in
    autocommit, or it would see one frozen picture of the activity.
    """
    if not observer.autocommit:
        raise ValueError("the observer must be in autocommit")

    def waits() -> list[int]:
        row = observer.execute(
            "select state, wait_event_type, wait_event, pg_blocking_pids(pid), query"
            " from pg_stat_activity where pid = %s",
            [pid],
        ).fetchone()
        assert row is not None, f"there is no backend {pid}"
        state, kind, event, blockers, query = row
        seen = f"backend {pid}: {state}, {kind}/{event}, blocked by {blockers}, query {query!r}"
        assert kind == "Lock", f"does not wait on a lock. {seen}"
        assert blockers, f"nobody blocks it. {seen}"
        assert by is None or by in blockers, f"is not blocked by {by}. {seen}"
        return list(blockers)

    return eventually(waits, within)
