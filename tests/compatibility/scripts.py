"""Runs the same calls on both databases and tells what they return, and leave, comparably."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import psycopg
from psycopg.rows import dict_row

Told = dict[str, Any]


class Script:
    """One session's side of a comparison; `told` gathers what is to be the same on both.

    Ids differ from database to database and are told as #1, #2, in the order in which they are
    first met. Times are told as seconds from the transaction's now. Names stand for their ids.
    """

    def __init__(self, session: psycopg.Connection[Any]) -> None:
        self.session = session
        self.told: list[object] = []
        self._ids: dict[int, str] = {}
        row = self.session.execute("select now()").fetchone()
        assert row is not None
        self._now: datetime = row[0]

    def execute(self, text: str, **params: Any) -> list[dict[str, Any]]:
        """Run a statement and return its rows."""
        with self.session.cursor(row_factory=dict_row) as cursor:
            cursor.execute(text.encode(), params or None)
            return cursor.fetchall() if cursor.description else []

    def call(self, call: str, *, in_order: bool = True, **params: Any) -> list[int]:
        """Call a function; tell what it returns or raises, and the table. Returns the ids."""
        try:
            with self.session.transaction():
                rows = self.execute(f"select * from graphile_worker.{call} as job", **params)
        except psycopg.Error as error:
            self.told.append((call, "raises", error.sqlstate))
            return []
        if not in_order:
            rows.sort(key=lambda row: (str(row["key"]), str(row["payload"])))
        self.told.append((call, [self._tell(row) for row in rows]))
        self.tell_jobs()
        return [row["id"] for row in rows if row.get("id") is not None]

    def tell_jobs(self) -> None:
        rows = self.execute("select * from graphile_worker._private_jobs order by id")
        told = [self._tell(row) for row in rows]
        self.told.append(("jobs", sorted(told, key=lambda row: str(row["id"]))))

    def tell_queues(self) -> None:
        rows = self.execute(
            "select queue_name, locked_at, locked_by, is_available"
            " from graphile_worker._private_job_queues order by 1"
        )
        self.told.append(("queues", [self._tell(row) for row in rows]))

    def tell_view(self) -> None:
        rows = self.execute("select * from graphile_worker.jobs order by id")
        self.told.append(("view", [self._tell(row) for row in rows]))

    def _tell(self, row: dict[str, Any]) -> Told:
        return {name: self._tell_value(name, value) for name, value in row.items()}

    def _tell_value(self, name: str, value: Any) -> Any:
        if value is None:
            return None
        if name == "id":
            return self._ids.setdefault(value, f"#{len(self._ids) + 1}")
        if isinstance(value, datetime):
            return (value - self._now).total_seconds()
        if name == "task_id":
            return self._name("_private_tasks", "identifier", value)
        if name == "job_queue_id":
            return self._name("_private_job_queues", "queue_name", value)
        return value

    def _name(self, table: str, column: str, pk: int) -> str:
        rows = self.execute(
            f"select {column} as name from graphile_worker.{table} where id = %(pk)s", pk=pk
        )
        return str(rows[0]["name"])


# What happens to a job between calls.

LOCKED = "locked_at = now(), locked_by = 'worker 1', attempts = attempts + 1"
LOCKED_LONG = "locked_at = now() - interval '241 minutes', locked_by = 'worker 1', attempts = 3"
LOCKED_ALMOST = "locked_at = now() - interval '239 minutes', locked_by = 'worker 1', attempts = 3"
RETRIED = "attempts = 3, last_error = 'no', run_at = now() + interval '20 seconds'"
FAILED = "attempts = max_attempts, last_error = 'no'"
LAST_TRY = "locked_at = now(), locked_by = 'worker 1', attempts = max_attempts"
LATER = "run_at = now() + interval '1 hour'"
FREE = "priority = priority"

STATES = {
    "free": FREE,
    "later": LATER,
    "retried": RETRIED,
    "locked": LOCKED,
    "locked for 239 minutes": LOCKED_ALMOST,
    "locked for 241 minutes": LOCKED_LONG,
    "locked for the last time": LAST_TRY,
    "failed": FAILED,
}


def aged(script: Script, state: str, *, key: str | None = None) -> None:
    """Bring jobs, all or that of a key, into a state, and let them be an hour old."""
    script.execute(
        "update graphile_worker._private_jobs set created_at = now() - interval '1 hour',"
        f" updated_at = now() - interval '1 hour', {state}"
        " where %(key)s::text is null or key = %(key)s",
        key=key,
    )


def first_difference(ours: Sequence[object], theirs: Sequence[object]) -> str | None:
    """Say where two tellings part, or `None`."""
    for mine, other in zip(ours, theirs, strict=False):
        if mine != other:
            return f"ours:   {mine}\ntheirs: {other}"
    return None if len(ours) == len(theirs) else f"{len(ours)} steps against {len(theirs)}"
