"""What tests of the worker share: the queue's tables by hand, and a pool that runs in a thread."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from django_graphile_worker.registry import Registry, Task
from django_graphile_worker.statements.base import Statement
from django_graphile_worker.worker.pool import WorkerPool
from tests.living import NAMES, enlist

T = TypeVar("T")

Session = psycopg.Connection[Any]


def run(session: Session, statement: Statement[T]) -> T:
    with session.cursor() as cursor:
        return statement.run(cursor)


class Queue:
    """The queue's tables, through a session of its own in autocommit."""

    def __init__(self, session: Session, schema: str) -> None:
        self.session = session
        self.schema = schema
        enlist(session, schema, *NAMES)

    def name(self, table: str) -> sql.Identifier:
        return sql.Identifier(self.schema, table)

    def query(self, text: str, params: Any = None, session: Session | None = None) -> list[Any]:
        """Run SQL in which `{jobs}`, `{queues}`, `{tasks}`, `{conflicts}`, `{add_job}` stand."""
        statement = sql.SQL(text).format(
            jobs=self.name("_private_jobs"),
            queues=self.name("_private_job_queues"),
            tasks=self.name("_private_tasks"),
            conflicts=self.name("django_key_conflicts"),
            workers=self.name("django_workers"),
            errors=self.name("django_job_errors"),
            renewed=self.name("django_renewed_locks"),
            statistics=self.name("django_statistics"),
            add_job=self.name("add_job"),
        )
        with (session or self.session).cursor(row_factory=dict_row) as cursor:
            cursor.execute(statement, params)
            return cursor.fetchall() if cursor.description else []

    def add(
        self,
        task: str = "noop",
        payload: object = None,
        *,
        session: Session | None = None,
        **options: Any,
    ) -> int:
        """Call the function `add_job` with upstream's names; return the job's id."""
        names = ["identifier", "payload", *options]
        values = [task, json.dumps({} if payload is None else payload), *options.values()]
        arguments = ", ".join(f"{name} => %s" for name in names)
        rows = self.query(
            f"select job.id from {{add_job}}({arguments}) as job", values, session=session
        )
        return int(rows[0]["id"])

    def set(self, job_id: int, **columns: Any) -> None:
        assignments = ", ".join(f"{column} = %({column})s" for column in columns)
        self.query(
            f"update {{jobs}} set {assignments} where id = %(id)s", {"id": job_id, **columns}
        )

    def jobs(self) -> list[dict[str, Any]]:
        return self.query("select * from {jobs} order by id")

    def job(self, job_id: int) -> dict[str, Any] | None:
        rows = self.query("select * from {jobs} where id = %s", [job_id])
        return rows[0] if rows else None

    def queue(self, name: str) -> dict[str, Any]:
        return dict(self.query("select * from {queues} where queue_name = %s", [name])[0])

    def conflicts(self) -> list[dict[str, Any]]:
        return self.query("select * from {conflicts} order by id")

    def locks(self) -> int:
        """How many jobs and named queues anybody has locked."""
        rows = self.query(
            "select (select count(*) from {jobs} where locked_by is not null or locked_at is not"
            " null) + (select count(*) from {queues} where locked_by is not null"
            " or locked_at is not null) as locks"
        )
        return int(rows[0]["locks"])

    def backends(self, part: str) -> list[int]:
        """The backends of the worker's connections for a part, such as "fetcher"."""
        rows = self.query(
            "select pid from pg_stat_activity where datname = current_database()"
            " and application_name like %s",
            [f"graphile_worker {part} %"],
        )
        return [row["pid"] for row in rows]

    def kill(self, part: str) -> None:
        """End the backends of a part, and wait until they are gone."""
        for pid in self.backends(part):
            self.query("select pg_terminate_backend(%s, 5000)", [pid])


class Running:
    """A pool at work in a thread of its own."""

    def __init__(self, pool: WorkerPool) -> None:
        self.pool = pool
        self.exit_code: int | None = None
        self.thread = threading.Thread(target=self._run, name="pool under test")
        self.thread.start()

    def _run(self) -> None:
        self.exit_code = self.pool.run()

    def join(self, within: float = 15) -> int:
        """Wait for the end; return the exit code."""
        self.thread.join(within)
        assert not self.thread.is_alive(), f"the pool did not end within {within} s"
        assert self.exit_code is not None, "the pool raised"
        return self.exit_code

    def stop(self, within: float = 15) -> int:
        self.pool.stop()
        return self.join(within)


def register(*functions: Callable[..., Any], **named: Callable[..., Any]) -> Registry:
    """A registry of these tasks, by the functions' names or by the given ones."""
    registry = Registry()
    for function in functions:
        registry.add(Task(function, function.__name__))
    for identifier, function in named.items():
        registry.add(Task(function, identifier))
    return registry
