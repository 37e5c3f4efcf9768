"""The stage on which sessions meet: real connections, moved step by step.

Every interleaving here is forced: a call that has to wait runs in a thread, and the next step is
taken when PostgreSQL itself says that it waits, and for whom.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from psycopg import IsolationLevel, sql
from psycopg.rows import namedtuple_row

from django_graphile_worker.jobs import LockedJob
from django_graphile_worker.statements import worker as statements
from django_graphile_worker.statements.base import Statement
from testproject import uncorrected
from tests.conftest import Connect
from tests.database.calls import LONGEST, Call
from tests.database.calls import Session as Session
from tests.database.sessions import Sessions
from tests.living import NAMES, enlist
from tests.waiting import wait_until_blocked

T = TypeVar("T")
Row = Any
"""A job as a named tuple, its payload parsed; or `None` where there is no job."""

TABLES = {
    "jobs": "_private_jobs",
    "tasks": "_private_tasks",
    "queues": "_private_job_queues",
    "conflicts": "django_key_conflicts",
    "workers": "django_workers",
    "errors": "django_job_errors",
    "renewed": "django_renewed_locks",
    "statistics": "django_statistics",
}
FUNCTIONS = (
    "add_job",
    "add_jobs",
    "remove_job",
    "complete_jobs",
    "permanently_fail_jobs",
    "reschedule_jobs",
    "force_unlock_workers",
)
# fmt: off
SPEC = (
    "identifier", "payload", "queue_name", "run_at", "max_attempts", "job_key", "priority", "flags",
)
# fmt: on
BESIDE = "beside the queue"

Spec = dict[str, Any]


def spec(identifier: str | None = "task", payload: object = None, **fields: Any) -> Spec:
    """One request; a payload that is a string is taken as JSON text, untouched."""
    assert fields.keys() <= set(SPEC), fields
    return {**dict.fromkeys(SPEC), "identifier": identifier, "payload": dumps(payload), **fields}


def dumps(payload: object) -> str | None:
    return payload if payload is None or isinstance(payload, str) else json.dumps(payload)


class Stage:
    """The queue's tables and functions, and the sessions that use them.

    `functions` is the schema of `add_job`, `add_jobs` and `remove_job`: the queue's own, or after
    `use_uncorrected` the one that holds the fault's shape.
    """

    def __init__(self, connect: Connect, schema: str, shared: Sessions) -> None:
        self.connect = connect
        self.schema = schema
        self.functions = schema
        self.shared = shared
        self.borrowed: list[Session] = []
        self.borrowed_observer = shared.observers.pop() if shared.observers else None
        self.observer = self.borrowed_observer or connect(application_name="observer")
        self.calls: list[Call[Any]] = []
        enlist(self.observer, schema, *NAMES)

    def end_calls(self) -> None:
        """End what is still under way, as it is after an assertion that failed."""
        for call in self.calls:
            if not call.done():
                self.observer.execute("select pg_terminate_backend(%s)", [call.pid])
        for call in self.calls:
            call.thread.join(LONGEST)

    def close(self) -> None:
        self.end_calls()
        self.shared.idle += [each for each in self.borrowed if self.shared.is_sound(each)]
        if self.functions != self.schema:
            uncorrected.uninstall(self.observer, self.functions)
        if self.borrowed_observer and self.shared.is_sound(self.observer):
            self.shared.observers.append(self.observer)

    def use_uncorrected(self, variant: str) -> None:
        uncorrected.install(self.observer, self.schema, variant, BESIDE)
        self.functions = BESIDE

    # Sessions and statements

    def session(self, isolation: IsolationLevel | None = None, **parameters: Any) -> Session:
        """A session that is not in autocommit: its first statement begins a transaction.

        A shared one, unless it is to have something of its own.
        """
        if not parameters and self.shared.idle:
            session = self.shared.idle.pop()
            self.borrowed.append(session)
            session.isolation_level = isolation
            session.autocommit = False
            return session
        options = f"-c statement_timeout={LONGEST}s {parameters.pop('options', '')}"
        return self.connect(
            autocommit=False, isolation_level=isolation, options=options, **parameters
        )

    def sql(self, text: str) -> sql.Composed:
        """SQL in which `{jobs}`, `{add_job}` and so on stand for names."""
        beside = ("add_job", "add_jobs", "remove_job")
        names = {name: sql.Identifier(self.schema, table) for name, table in TABLES.items()}
        for name in FUNCTIONS:
            home = self.functions if name in beside else self.schema
            names[name] = sql.Identifier(home, name)
        return sql.SQL(text).format(
            **names,
            schema=sql.Identifier(self.schema),
            job_spec=sql.Identifier(self.schema, "job_spec"),
        )

    def query(self, text: str, params: Any = None, session: Session | None = None) -> list[Row]:
        """Run such SQL and return all rows, as named tuples."""
        with (session or self.observer).cursor(row_factory=namedtuple_row) as cursor:
            cursor.execute(self.sql(text), params)
            return cursor.fetchall() if cursor.description else []

    def run(self, statement: Statement[T], session: Session | None = None) -> T:
        with (session or self.observer).cursor() as cursor:
            return statement.run(cursor)

    def start(self, session: Session, function: Callable[[], T]) -> Call[T]:
        call = Call(session, function)
        self.calls.append(call)
        return call

    def wait_until_blocked(self, call: Call[Any], by: Session) -> None:
        """Wait until the call waits for that session; no longer than until the call has ended."""
        for tries_left in reversed(range(50)):
            try:
                wait_until_blocked(self.observer, call.pid, by=by.info.backend_pid, within=0.1)
                return
            except AssertionError:
                if call.done():
                    call.result()
                if call.done() or not tries_left:
                    raise

    def wait_until_blocked_or_done(self, call: Call[Any], by: Session) -> None:
        try:
            self.wait_until_blocked(call, by)
        except AssertionError:
            assert call.done()

    # The queue's functions

    def add_job(
        self,
        session: Session | None = None,
        identifier: str | None = "task",
        payload: object = None,
        **named: Any,
    ) -> Row:
        named = {"identifier": identifier, "payload": dumps(payload), **named}
        arguments = ", ".join(f"{name} => %({name})s" for name in named)
        (row,) = self.query(f"select * from {{add_job}}({arguments})", named, session)
        return row

    def add_jobs(
        self, session: Session | None, specs: Sequence[Spec], *, preserve_run_at: bool = False
    ) -> list[Row]:
        elements = ", ".join(["(%s, %s, %s, %s, %s, %s, %s, %s)"] * len(specs))
        values = [each[field] for each in specs for field in SPEC]
        return self.query(
            f"select * from {{add_jobs}}(array[{elements}]::{{job_spec}}[], %s)",
            [*values, preserve_run_at],
            session,
        )

    # The queue's rows

    def make_job(self, key: str | None = None, payload: object = None, **columns: Any) -> int:
        """Insert a job as it is wished for, past every function; returns its id."""
        task = columns.pop("task", "task")
        self.make_name("tasks", "identifier", task)
        queue = columns.pop("queue", None)
        if queue is not None:
            self.make_name("queues", "queue_name", queue)
        columns = {"key": key, "payload": dumps([] if payload is None else payload), **columns}
        names = ", ".join(columns)
        values = ", ".join(f"%({name})s" for name in columns)
        (row,) = self.query(
            f"insert into {{jobs}} (task_id, job_queue_id, {names}) values ("
            " (select id from {tasks} where identifier = %(task)s),"
            f" (select id from {{queues}} where queue_name = %(queue)s), {values}) returning id",
            {**columns, "task": task, "queue": queue},
        )
        return int(row.id)

    def make_name(self, table: str, column: str, name: str) -> None:
        self.query(
            f"insert into {{{table}}} ({column}) select %s"
            f" where not exists (select from {{{table}}} where {column} = %s)",
            [name, name],
        )

    def job(self, job_id: int) -> Row:
        rows = self.query("select * from {jobs} where id = %s", [job_id])
        return rows[0] if rows else None

    def holder(self, key: str) -> Row:
        rows = self.query("select * from {jobs} where key = %s", [key])
        return rows[0] if rows else None

    def count(self, table: str) -> int:
        return int(self.query(f"select count(*) from {{{table}}}")[0].count)

    def jobs(self) -> list[Row]:
        return self.query("select * from {jobs} order by id")

    def take(self, session: Session | None = None, worker: str = "worker") -> list[LockedJob]:
        """Take all due jobs as our worker does."""
        enlist(self.observer, self.schema, worker)
        tasks = [row.identifier for row in self.query("select identifier from {tasks}")]
        statement = statements.get_jobs(
            schema=self.schema, worker_id=worker, identifiers=tasks, slots=1000, room=1000
        )
        return self.run(statement, session)

    def assert_not_lost(self, *numbers: int) -> None:
        """The runs that begin now, and no others, are to see these requests."""
        runs = [json.loads(job.payload) for job in self.take(worker="the next one")]
        seen = sorted(number for run in runs for number in run)
        lost = sorted(set(numbers) - set(seen))
        assert not lost, f"lost: the requests {lost}; the runs that begin now see {seen}"


def ago(**delta: float) -> datetime:
    return datetime.now(UTC) - timedelta(**delta)
