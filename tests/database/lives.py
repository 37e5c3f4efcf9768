"""Workers that live and die on the stage, as the database sees them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import pytest
from psycopg.rows import namedtuple_row

from django_graphile_worker.jobs import LockedJob
from django_graphile_worker.statements import worker as statements
from django_graphile_worker.statements import workers
from django_graphile_worker.statements.base import Statement
from django_graphile_worker.statements.workers import Rescued
from tests.database.stage import Row, Session, Stage

T = TypeVar("T")

# Who sweeps; it has been heard for an hour.
WATCH = "django:test:2:watch"


class Change(NamedTuple):
    """What is changed in the statement of that name: each text that stands there, into another."""

    name: str
    texts: dict[str, str]


@contextmanager
def shown_by(change: Change | None) -> Iterator[None]:
    """The check inside holds; after a careless statement it has to fail."""
    if change is None:
        yield
    else:
        with pytest.raises(AssertionError):
            yield


class Lives:
    """Rows of `django_workers`, made as the test wishes, and the statements over them.

    `careless` is a change to a statement's text, and what it is changed to: with it a test shows
    that it finds the fault.
    """

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.schema = stage.schema
        self.careless: Change | None = None

    def run(self, statement: Statement[T], session: Session | None = None) -> T:
        """Run a statement, with the change to it if it is the one to be changed."""
        if self.careless is not None and statement.name == self.careless.name:
            text = statement.text
            for old, new in self.careless.texts.items():
                assert old in text, f"{statement.name} does not have {old!r}"
                text = text.replace(old, new)
            statement = dataclasses.replace(statement, text=text)
        return self.stage.run(statement, session)

    def born(self, *names: str, silent: float = 0, watching: float = 3_600, **columns: Any) -> None:
        """Write workers down that were heard last `silent` seconds ago; 5 s and 30 s are theirs."""
        for name in names:
            values = {"heartbeat": "5 s", "stale_after": "30 s", **columns}
            more = "".join(f", {column}" for column in values)
            self.stage.query(
                "insert into {workers} (worker_id, host, pid, concurrency, started_at,"
                f" last_beat_at, watching_since{more}) values (%(name)s, 'test', 1, 1,"
                " now() - interval '1 day', now() - %(silent)s * interval '1 s',"
                " now() - %(watching)s * interval '1 s'"
                + "".join(f", %({column})s" for column in values)
                + ")",
                {"name": name, "silent": silent, "watching": watching, **values},
            )

    def row(self, name: str) -> Row:
        rows = self.stage.query("select * from {workers} where worker_id = %s", [name])
        return rows[0] if rows else None

    def beat(self, *names: str, session: Session | None = None) -> set[str]:
        alive = self.run(workers.beat(schema=self.schema, worker_ids=names), session)
        return set(alive)

    def renew(self, *names: str) -> int:
        return self.run(workers.renew_locks(schema=self.schema, worker_ids=names))

    def rescue(
        self, *names: str, by: str | None = None, session: Session | None = None, **options: Any
    ) -> Rescued:
        return self.run(
            workers.rescue(schema=self.schema, worker_ids=names, by=by, **options), session
        )

    def sweep(self, **options: Any) -> Rescued:
        """What every worker does every few seconds."""
        if self.row(WATCH) is None:
            self.born(WATCH)
        return self.rescue(by=WATCH, **options)

    def register(self, name: str) -> bool:
        return self.run(
            workers.register_worker(
                schema=self.schema,
                worker_id=name,
                host="test",
                pid=1,
                concurrency=1,
                heartbeat=5,
                stale_after=30,
            )
        )

    def leave(self, name: str, session: Session | None = None) -> bool:
        return self.run(workers.leave_worker(schema=self.schema, worker_id=name), session)

    def forget(self) -> int:
        return self.run(workers.forget_workers(schema=self.schema))

    def take(self, name: str, session: Session | None = None, **options: Any) -> list[LockedJob]:
        """Take due jobs in the name of a worker."""
        tasks = [row.identifier for row in self.stage.query("select identifier from {tasks}")]
        values: dict[str, Any] = {"identifiers": tasks, "slots": 100, "room": 100, **options}
        return self.run(statements.get_jobs(schema=self.schema, worker_id=name, **values), session)

    def take_one(self, name: str, session: Session | None = None) -> LockedJob:
        (job,) = self.take(name, session)
        return job

    def errors(self) -> list[Row]:
        return self.stage.query("select * from {errors} order by id")

    def queue(self, name: str) -> Row:
        (row,) = self.stage.query("select * from {queues} where queue_name = %s", [name])
        return row

    def age(self, jobs: Sequence[LockedJob], hours: float) -> None:
        """Let the locks of jobs, and of their queues, be so old."""
        self.stage.query(
            "with aged as (update {jobs} set locked_at = locked_at - %(hours)s * interval '1 h'"
            " where id = any (%(ids)s) returning job_queue_id)"
            " update {queues} set locked_at = locked_at - %(hours)s * interval '1 h'"
            " where id in (select job_queue_id from aged)",
            {"hours": hours, "ids": [job.id for job in jobs]},
        )

    def explain(self, statement: Any, session: Session) -> str:
        """Run a statement and return what the planner did, one line for each node."""
        with session.cursor(row_factory=namedtuple_row) as cursor:
            cursor.execute(
                f"explain (analyze, costs off, timing off, summary off) {statement.text}",
                statement.params,
            )
            return "\n".join(row[0] for row in cursor.fetchall())
