"""A call that PostgreSQL ends to resolve a deadlock is made again where its transaction is its own.

The circle is closed by our call, and only our session looks for one: so it is the victim, whatever
takes how long.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connection, transaction
from psycopg import sql

from django_graphile_worker import client, enqueue, enqueue_many, transactions
from tests.conftest import Connect
from tests.waiting import wait_until_blocked

pytestmark = pytest.mark.django_db(transaction=True)

# A statement for each job; the second asks for the key that is locked.
CHUNK = 1
SPECS: list[Any] = [
    {"task": "new", "job_key": "a"},
    "new",
    {"task": "new", "job_key": "b"},
    "new",
]


class Circle:
    """Another program has locked one key, and asks for the other before our call has both."""

    def __init__(self, connect: Connect, schema: str) -> None:
        self.observer = connect()
        self.other = connect(
            autocommit=False, options="-c deadlock_timeout=1h -c statement_timeout=20s"
        )
        self.jobs = sql.Identifier(schema, "_private_jobs")
        self.schema = schema
        self.statements = 0
        self._thread = threading.Thread(target=self._ask_for_the_other)
        self._error: BaseException | None = None

    def lock(self, key: str) -> None:
        query = sql.SQL("select from {} where key = %s for update").format(self.jobs)
        self.other.execute(query, [key])

    def stored(self) -> list[tuple[str, str | None, int]]:
        query = sql.SQL("select task_identifier, key, revision from {} order by id").format(
            sql.Identifier(self.schema, "jobs")
        )
        return self.observer.execute(query).fetchall()

    @contextmanager
    def closed(self) -> Iterator[None]:
        self.lock("b")
        with connection.cursor() as cursor:
            cursor.execute("set deadlock_timeout = '10ms'; set statement_timeout = '20s'")
        try:
            with connection.execute_wrapper(self._before_each_statement):
                yield
        finally:
            if self._thread.ident is not None:
                self._thread.join()
            self.other.close()
            connection.close()
        assert self._error is None, self._error

    def _before_each_statement(
        self, execute: Callable[..., Any], text: Any, params: Any, many: bool, context: Any
    ) -> Any:
        if "add_jobs" in str(text) and connection.connection is not None:
            self.statements += 1
            if self.statements == 2:
                self._thread.start()
                pid = connection.connection.info.backend_pid
                wait_until_blocked(self.observer, self.other.info.backend_pid, by=pid)
        return execute(text, params, many, context)

    def _ask_for_the_other(self) -> None:
        try:
            self.lock("a")
            self.other.commit()
        except BaseException as error:  # noqa: BLE001 - for the test's own thread
            self._error = error


@pytest.fixture
def circle(connect: Connect, schema: str, monkeypatch: pytest.MonkeyPatch) -> Circle:
    monkeypatch.setattr(client, "CHUNK", CHUNK)
    enqueue_many([{"task": "old", "job_key": key} for key in "ab"])
    return Circle(connect, schema)


OLD = [("old", "a", 0), ("old", "b", 0)]


def is_deadlock(error: OperationalError) -> bool:
    return isinstance(error.__cause__, psycopg.errors.DeadlockDetected)


def test_many_jobs_in_a_transaction_of_their_own_are_added_in_the_end(circle: Circle) -> None:
    with circle.closed():
        jobs = enqueue_many(SPECS)
    assert circle.statements == 2 + len(SPECS)
    assert [(job.job_key, job.revision) for job in jobs] == [
        ("a", 1),
        (None, 0),
        ("b", 1),
        (None, 0),
    ]
    assert sorted(job.id for job in jobs) == sorted({job.id for job in jobs})
    stored = circle.stored()
    assert sorted(stored, key=str) == sorted(
        [("new", "a", 1), ("new", "b", 1), ("new", None, 0), ("new", None, 0)], key=str
    )


def test_without_another_try_they_would_not(
    circle: Circle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "TRIES", 1)
    with circle.closed(), pytest.raises(OperationalError) as raised:
        enqueue_many(SPECS)
    assert is_deadlock(raised.value)
    assert circle.statements == 2
    assert circle.stored() == OLD


def test_in_the_callers_transaction_the_error_is_theirs(circle: Circle) -> None:
    """And what they had done before is rolled back with it."""

    def work() -> None:
        with transaction.atomic():
            enqueue("before")
            enqueue_many(SPECS)

    with circle.closed(), pytest.raises(OperationalError) as raised:
        work()
    assert is_deadlock(raised.value)
    assert circle.statements == 2
    assert circle.stored() == OLD
    assert enqueue("afterwards").id


def test_a_savepoint_around_the_call_saves_the_rest(circle: Circle) -> None:
    with circle.closed(), transaction.atomic():
        enqueue("before")
        raised = _refused()
        assert is_deadlock(raised)
        enqueue_many(SPECS)
    assert circle.statements == 2 + len(SPECS)
    assert [job for job in circle.stored() if job[0] == "before"] == [("before", None, 0)]
    assert len(circle.stored()) == 5


def _refused() -> OperationalError:
    with pytest.raises(OperationalError) as raised, transaction.atomic():
        enqueue_many(SPECS)
    return raised.value
