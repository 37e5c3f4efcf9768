"""A queue with something in every state and every table, for those who look at all of it.

Straight into the tables: some of it would take hours to come about by itself.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql

# Beyond what 32 bits hold, and what JavaScript's numbers do.
LARGE = 2**53 + 1

# The first id of all: the same in every house, so that what was found in one is found in the next,
# and beyond what the sequences of a test database come to.
FIRST = 5_000_000
WITHOUT_IDS = {"django_workers", "django_renewed_locks", "_private_known_crontabs"}

PASSWORD = "correct horse battery staple"
NOTE = "a note that only few may read"

Text = Callable[[str, str], str]


def readable(_column: str, text: str) -> str:
    return text


@dataclass
class House:
    """What is in it. `jobs` has the ids by what is the matter with them."""

    schema: str
    jobs: dict[str, int] = field(default_factory=dict)
    tasks: dict[str, int] = field(default_factory=dict)
    queues: dict[str, int] = field(default_factory=dict)
    workers: dict[str, str] = field(default_factory=dict)
    fought_key: str = ""


class Furnisher:
    """Puts the rows in; `text` may make something else of each text, by the column's name."""

    def __init__(self, session: psycopg.Connection[Any], schema: str, text: Text) -> None:
        self.session = session
        self.house = House(schema)
        self.text = text
        self.ids = itertools.count(FIRST)

    def insert(self, table: str, returning: str | None = None, /, **values: Any) -> Any:
        """Insert a row; a value that is a piece of SQL is put in as it stands."""
        if table not in WITHOUT_IDS:
            values = {"id": next(self.ids), **values}
        shown = [
            value if isinstance(value, sql.Composable) else sql.Literal(value)
            for value in values.values()
        ]
        statement = sql.SQL("insert into {} ({}) overriding system value values ({})").format(
            sql.Identifier(self.house.schema, table),
            sql.SQL(", ").join(map(sql.Identifier, values)),
            sql.SQL(", ").join(shown),
        )
        if returning is None:
            self.session.execute(statement)
            return None
        statement += sql.SQL(" returning {}").format(sql.Identifier(returning))
        row = self.session.execute(statement).fetchone()
        assert row is not None
        return row[0]

    def worker(self, name: str, worker_id: str, **values: Any) -> None:
        worker_id = self.text("worker_id", worker_id)[:100]
        self.house.workers[name] = worker_id
        self.insert(
            "django_workers",
            worker_id=worker_id,
            host=self.text("host", "web-1"),
            pid=4711,
            concurrency=10,
            heartbeat=sql.SQL("interval '5 s'"),
            stale_after=sql.SQL("interval '30 s'"),
            **values,
        )

    def task(self, name: str) -> None:
        self.house.tasks[name] = self.insert(
            "_private_tasks", "id", identifier=self.text("identifier", name)[:128]
        )

    def queue(self, name: str, **values: Any) -> None:
        self.house.queues[name] = self.insert(
            "_private_job_queues", "id", queue_name=self.text("queue_name", name)[:128], **values
        )

    def job(self, name: str, task: str, queue: str | None = None, **values: Any) -> int:
        payload = {
            "to": "ada@example.org",
            "note": NOTE,
            "password": PASSWORD,
            self.text("payload key", "subject"): self.text("payload", "Hello"),
        }
        if "key" in values:
            values["key"] = self.text("key", values["key"])
        row = {
            "task_id": self.house.tasks[task],
            "job_queue_id": None if queue is None else self.house.queues[queue],
            "payload": json.dumps(payload),
            "flags": json.dumps({self.text("flags", "europe"): True}),
            **values,
        }
        job_id = int(self.insert("_private_jobs", "id", **row))
        self.house.jobs[name] = job_id
        return job_id

    def held(self, worker: str, minutes: float = 1) -> dict[str, Any]:
        return {"locked_by": self.house.workers[worker], "locked_at": ago(minutes)}

    def error(self, job: str, task: str, attempt: int, **values: Any) -> None:
        self.insert(
            "django_job_errors",
            job_id=self.house.jobs[job],
            task_identifier=self.text("task_identifier", task),
            attempt=attempt,
            max_attempts=25,
            error=self.text("error", "ConnectionRefusedError: the mail server is away"),
            worker_id=self.house.workers["alive"],
            locked_at=ago(attempt * 10 + 1),
            failed_at=ago(attempt * 10),
            **values,
        )

    def conflict(self, key: str, superseded: str, successor: str, **values: Any) -> None:
        row = {
            "key": self.text("key", key),
            "mode": self.text("mode", "preserve_run_at"),
            "superseded_job_id": self.house.jobs[superseded],
            "superseded_task": self.text("superseded_task", "refresh_page"),
            "superseded_state": "locked",
            "superseded_attempts": 1,
            "superseded_max_attempts": 25,
            "superseded_locked_by": self.house.workers["alive"],
            "superseded_locked_at": ago(2),
            "successor_job_id": self.house.jobs[successor],
            "successor_task": self.text("successor_task", "refresh_page"),
        }
        self.insert("django_key_conflicts", **row | values)


def ago(minutes: float) -> sql.SQL:
    return sql.SQL(f"now() - interval '{minutes} minutes'")


def soon(minutes: float) -> sql.SQL:
    return ago(-minutes)


def furnish(session: psycopg.Connection[Any], schema: str, text: Text = readable) -> House:
    """Fill an empty queue; `text(column, what would be there)` may put something else there."""
    to = Furnisher(session, schema, text)
    to.worker("alive", "django:web-1:4711:aaaa", last_beat_at=soon(60 * 24))
    to.worker("stopping", "django:web-1:4712:bbbb", last_beat_at=soon(60 * 24), stopping_at=ago(1))
    to.worker("silent", "django:web-2:4713:cccc", started_at=ago(90), last_beat_at=ago(20))
    to.worker(
        "dead", "django:web-2:4714:dddd", started_at=ago(90), last_beat_at=ago(9), dead_at=ago(8)
    )
    to.house.workers["foreign"] = text("worker_id", "worker-0123456789abcdef")[:100]
    for task in ("send_letter", "refresh_page", "resize_image", "settle_account"):
        to.task(task)
    to.queue("letters")
    to.queue("accounts", **to.held("silent", 22))
    _jobs(to)
    _history(to)
    return to.house


def _jobs(to: Furnisher) -> None:
    error = to.text("last_error", "ConnectionRefusedError: the mail server is away")
    to.job("ready", "send_letter", run_at=ago(3))
    to.job("again", "send_letter", run_at=ago(1), attempts=2, last_error=error)
    to.job("unserved", "resize_image", run_at=ago(300))
    to.job("queued", "send_letter", "letters", run_at=ago(2))
    to.job("behind", "settle_account", "accounts", run_at=ago(2))
    to.job("scheduled", "send_letter", run_at=soon(60), key="letter-7")
    to.job("retrying", "send_letter", run_at=soon(30), attempts=3, last_error=error)
    to.job("never", "send_letter", run_at=sql.SQL("'infinity'"))
    to.job("always", "send_letter", run_at=sql.SQL("'-infinity'"))
    to.job("failed", "send_letter", run_at=ago(30), attempts=25, last_error=error, key="letter-8")
    to.job("running", "send_letter", attempts=1, **to.held("alive"))
    to.job("orphan", "settle_account", "accounts", attempts=1, **to.held("silent", 22))
    to.job("lost", "send_letter", attempts=1, **to.held("dead", 10))
    to.job("foreign", "resize_image", attempts=1, **to.held("foreign", 3))
    to.job("stale", "resize_image", attempts=1, **to.held("foreign", 300))
    to.job("superseded", "refresh_page", attempts=1, **to.held("alive", 2))
    to.house.fought_key = to.text("key", "page-1")
    to.job("successor", "refresh_page", key="page-1", run_at=ago(1))
    to.job("large", "send_letter", id=LARGE, run_at=ago(4))


def _history(to: Furnisher) -> None:
    for attempt in (3, 2, 1):
        to.error("retrying", "send_letter", attempt)
    to.conflict("page-1", "superseded", "successor", recorded_at=ago(2))
    for minutes in range(5, 300, 60):
        to.conflict(
            "page-1",
            "superseded",
            "successor",
            superseded_job_id=LARGE + minutes,
            recorded_at=ago(minutes),
            finished_at=ago(minutes - 1),
            outcome="completed",
        )
    to.conflict(
        "letter-8",
        "failed",
        "scheduled",
        superseded_job_id=77,
        superseded_state="failed",
        superseded_locked_by=None,
        superseded_locked_at=None,
        recorded_at=ago(50),
    )
    to.insert(
        "_private_known_crontabs",
        identifier=to.text("identifier", "nightly"),
        known_since=ago(9000),
        last_execution=ago(600),
    )
    for minutes in range(1, 50):
        to.insert(
            "django_statistics",
            minute=sql.SQL(f"date_trunc('minute', now()) - interval '{minutes} minutes'"),
            task_identifier=to.text("task_identifier", "send_letter"),
            succeeded=10 + minutes % 7,
            retried=minutes % 3,
            failed=minutes % 2,
            waits=[0, 3, 5, 2],
            runs=[1, 4, 5],
        )
    to.insert(
        "django_renewed_locks",
        job_id=to.house.jobs["stale"],
        worker_id=to.house.workers["foreign"],
        taken_at=ago(600),
        locked_at=ago(300),
    )
