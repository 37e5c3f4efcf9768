"""Those who ask for jobs: through the app and by SQL, one and many, decided and undecided."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
from django.db import connection
from psycopg import IsolationLevel

import django_graphile_worker as app
from django_graphile_worker import transactions
from django_graphile_worker.exceptions import JobNotStored
from django_graphile_worker.jobs import EnqueuedJob, JobKeyMode, JobSpec
from django_graphile_worker.statements import jobs as statements
from tests.storm.actors import KEYS, QUEUES, TASKS, Actor, Row, Session, job_text, numbers_in

T = TypeVar("T")

# What a single call, alone in its transaction, must never end in.
DEADLOCK = "40P01"


@dataclass(frozen=True, slots=True)
class Wish:
    """One request."""

    number: int
    task: str
    key: str | None
    queue: str | None

    @property
    def payload(self) -> str:
        return f"[{self.number}]"


class Caller(Actor):
    """Makes requests and sees to it that each gets its row."""

    def wish(self, key: str | None) -> Wish:
        (number,) = self.ledger.numbers()
        return Wish(number, self.random.choice(TASKS), key, self.random.choice(QUEUES))

    def key(self) -> str | None:
        return self.random.choice(KEYS) if self.random.random() < 0.95 else None

    def wishes(self) -> list[Wish]:
        """Five keys in any order, now and then one of them twice, or one without.

        The fault's shape refuses repeats, and an error is no loss.
        """
        keys: list[str | None] = [*self.random.sample(KEYS, 5)]
        if self.weather.corrected and self.random.random() < 0.2:
            keys[self.random.randrange(5)] = self.random.choice([keys[0], None])
        return [self.wish(key) for key in keys]

    def mode(self) -> JobKeyMode:
        return self.random.choice([JobKeyMode.REPLACE, JobKeyMode.PRESERVE_RUN_AT])

    def missing(self, text: str) -> None:
        self.ledger.fault("missing", f"{self.name}: {text}")

    def check(self, wishes: list[Wish], rows: list[Row]) -> None:
        """One row for each, in their order, as it stands after the call."""
        if len(rows) != len(wishes) or any(row.id is None for row in rows):
            self.missing(f"{len(wishes)} specs got {len(rows)} rows: {[row.id for row in rows]}")
            return
        for wish, row in zip(wishes, rows, strict=True):
            mine = {
                other.number
                for other in wishes
                if other == wish or (wish.key is not None and other.key == wish.key)
            }
            if row.key != wish.key or not mine.issubset(numbers_in(row.payload)):
                self.missing(f"{wish} got {job_text(row)}")

    # By SQL

    def add_job(self, session: Session, wish: Wish, mode: str | None) -> list[Row]:
        return self.weather.query(
            session,
            "select * from {add_job}(identifier => %s, payload => %s, queue_name => %s,"
            " job_key => %s, job_key_mode => %s)",
            [wish.task, wish.payload, wish.queue, wish.key, mode],
        )

    def add_jobs(self, session: Session, wishes: list[Wish], preserve: bool) -> list[Row]:
        elements = ", ".join(["(%s, %s, %s, null, null, %s, null, null)"] * len(wishes))
        values = [
            value for wish in wishes for value in (wish.task, wish.payload, wish.queue, wish.key)
        ]
        return self.weather.query(
            session,
            f"select * from {{add_jobs}}(array[{elements}]::{{job_spec}}[], %s)",
            [*values, preserve],
        )


class ThroughApp(Caller):
    """Calls on Django's connection; a deadlock is seen though the client would try again."""

    @contextmanager
    def watched(self) -> Iterator[None]:
        def watch(execute: Callable[..., T], *arguments: Any) -> T:
            try:
                return execute(*arguments)
            except Exception as error:
                if getattr(error.__cause__, "sqlstate", None) == DEADLOCK:
                    self.ledger.fault("deadlock", f"{self.name}: {error}")
                raise

        with connection.execute_wrapper(watch):
            yield

    def enqueue(self, wish: Wish, mode: JobKeyMode) -> EnqueuedJob:
        """Through the app, or with the very same statement on other functions."""
        if self.weather.corrected:
            return app.enqueue(
                wish.task,
                [wish.number],
                job_key=wish.key,
                queue_name=wish.queue,
                job_key_mode=mode,
            )
        spec = JobSpec(
            identifier=wish.task,
            payload=wish.payload,
            queue_name=wish.queue,
            job_key=wish.key,
        )
        statement = statements.add_job(spec, mode, self.weather.functions)
        return transactions.run(None, statement.run)


class Single(ThroughApp):
    def step(self) -> None:
        wish = self.wish(self.key())
        with self.watched():
            try:
                job = self.enqueue(wish, self.mode())
            except JobNotStored as error:
                self.missing(str(error))
            else:
                if job.job_key != wish.key:
                    self.missing(f"{wish} got {job}")
        self.ledger.commit([wish.number])


class Dedupe(ThroughApp):
    """Asks with `unsafe_dedupe`, which may change nothing: then its number must never be seen."""

    def step(self) -> None:
        wish = self.wish(self.random.choice(KEYS))
        with self.watched():
            try:
                job = self.enqueue(wish, JobKeyMode.UNSAFE_DEDUPE)
            except JobNotStored as error:
                self.missing(str(error))
                self.ledger.commit([wish.number])
                return
        if job.revision:
            self.ledger.count("deduplicated")
        else:
            self.ledger.commit([wish.number])


class Bulk(ThroughApp):
    """`enqueue_many`; on other functions the same by SQL."""

    def step(self) -> None:
        wishes = self.wishes()
        preserve = self.random.random() < 0.5
        if self.weather.corrected:
            jobs: list[Any] = [
                {"task": w.task, "payload": [w.number], "job_key": w.key, "queue_name": w.queue}
                for w in wishes
            ]
            with self.watched():
                added = app.enqueue_many(jobs, job_key_preserve_run_at=preserve)
            if [job.job_key for job in added] != [wish.key for wish in wishes]:
                self.missing(f"{wishes} got {added}")
        else:
            with self.weather.open(self.name) as session:
                try:
                    self.check(wishes, self.add_jobs(session, wishes, preserve))
                except psycopg.errors.DeadlockDetected as error:
                    self.ledger.fault("deadlock", f"{self.name}: {error}")
                    return
        self.ledger.commit(wish.number for wish in wishes)


class BySQL(Caller):
    """Calls on a session of its own."""

    autocommit = True

    def open(self) -> None:
        self.session = self.weather.open(self.name, autocommit=self.autocommit)

    def close(self) -> None:
        self.session.close()

    def call(self) -> list[int]:
        """Make one call of one of the two functions; returns the numbers that it carries."""
        if self.random.random() < 0.5:
            wishes = self.wishes()
            rows = self.add_jobs(self.session, wishes, self.random.random() < 0.5)
        else:
            wishes = [self.wish(self.key())]
            # Null is no mode of its own: it means the default, as for every other argument.
            mode = self.random.choice([*map(str, (self.mode(), self.mode())), None])
            rows = self.add_job(self.session, wishes[0], mode)
        self.check(wishes, rows)
        return [wish.number for wish in wishes]


class Raw(BySQL):
    def step(self) -> None:
        try:
            self.ledger.commit(self.call())
        except psycopg.errors.DeadlockDetected as error:
            self.ledger.fault("deadlock", f"{self.name}: {error}")


class Undecided(BySQL):
    """Keeps its transaction open for a while, and takes every second call back."""

    autocommit = False

    def step(self) -> None:
        try:
            numbers = self.call()
        except psycopg.errors.DeadlockDetected as error:
            self.ledger.fault("deadlock", f"{self.name}: {error}")
            self.session.rollback()
            return
        self.stopping.wait(self.random.uniform(0, 0.005))
        if self.random.random() < 0.5:
            self.session.commit()
            self.ledger.commit(numbers)
        else:
            self.session.rollback()
            self.ledger.count("rolled back")


class Isolated(BySQL):
    """Under REPEATABLE READ or SERIALIZABLE: success or 40001."""

    autocommit = False

    def step(self) -> None:
        self.session.isolation_level = self.random.choice(
            [IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE]
        )
        try:
            # The snapshot is older than the call.
            self.session.execute("select 1")
            self.stopping.wait(self.random.uniform(0, 0.003))
            numbers = self.call()
            self.session.commit()
        except psycopg.errors.SerializationFailure:
            self.session.rollback()
            self.ledger.count("serialization failures")
        except psycopg.errors.DeadlockDetected as error:
            self.session.rollback()
            self.ledger.fault("deadlock", f"{self.name}: {error}")
        else:
            self.ledger.commit(numbers)
