"""Pausing and resuming a named queue."""

from __future__ import annotations

from django_graphile_worker.sql.loader import query
from django_graphile_worker.statements.base import Statement

PAUSED = "paused by django_graphile_worker"
"""Who holds a queue that is paused. No worker has this name."""


def pause_queue(*, schema: str, queue_name: str) -> Statement[bool | None]:
    """Lock a queue for nobody; return whether it was not paused, or `None` where there is none."""
    return Statement(
        "pause_queue",
        query("pause_queue", schema),
        {"queue_name": queue_name, "paused": PAUSED},
        lambda rows: bool(rows[0][0]) if rows else None,
    )


def ensure_queue(*, schema: str, queue_name: str) -> Statement[None]:
    """Make a queue unless there is one."""
    text = query("ensure_queue", schema)
    return Statement("ensure_queue", text, {"queue_name": queue_name}, lambda rows: None)


def lock_queue(*, schema: str, queue_name: str) -> Statement[tuple[int, bool] | None]:
    """Lock a queue's row; return its id and whether it is paused."""
    return Statement(
        "lock_queue",
        query("lock_queue", schema),
        {"queue_name": queue_name, "paused": PAUSED},
        lambda rows: (int(rows[0][0]), bool(rows[0][1])) if rows else None,
    )


def resume_queue(*, schema: str, queue_id: int) -> Statement[tuple[int, str] | None]:
    """Free a paused queue; return the job that is in the way, and its holder, if there is one."""
    return Statement(
        "resume_queue",
        query("resume_queue", schema),
        {"queue_id": queue_id},
        lambda rows: (int(rows[0][0]), str(rows[0][1])) if rows else None,
    )
