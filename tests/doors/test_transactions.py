"""A job appears exactly if its transaction commits; only what is ours to repeat is tried again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from django.conf import LazySettings
from django.db import OperationalError, connection, connections, transaction
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import path
from psycopg import sql

from django_graphile_worker import client, enqueue, enqueue_many, remove_job, transactions
from django_graphile_worker.exceptions import InvalidJob
from tests import guards
from tests.conftest import Connect
from tests.waiting import wait_until_blocked

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.urls(__name__)]

Raw = psycopg.Connection[Any]


def enqueue_and_fail(request: HttpRequest) -> HttpResponse:
    enqueue("from_a_view")
    raise RuntimeError("the view failed")


def enqueue_and_answer(request: HttpRequest) -> HttpResponse:
    return HttpResponse(str(enqueue("from_a_view").id))


urlpatterns = [path("fail", enqueue_and_fail), path("answer", enqueue_and_answer)]


@pytest.fixture
def raw(connect: Connect) -> Raw:
    return connect()


@pytest.fixture
def tasks(raw: Raw, schema: str) -> Callable[[], list[str]]:
    """Return the tasks of all committed jobs, in the order of their ids."""

    def tasks() -> list[str]:
        query = sql.SQL("select task_identifier from {} order by id")
        return [row[0] for row in raw.execute(query.format(sql.Identifier(schema, "jobs")))]

    return tasks


def backend_pid() -> int:
    connection.ensure_connection()
    return int(connection.connection.info.backend_pid)


def sqlstate(error: BaseException) -> str | None:
    return getattr(error.__cause__, "sqlstate", None)


def test_a_job_is_there_for_others_exactly_after_the_commit(
    tasks: Callable[[], list[str]],
) -> None:
    with transaction.atomic():
        job = enqueue("a")
        assert enqueue_many(["b"])[0].id > job.id
        assert tasks() == []
    assert tasks() == ["a", "b"]


def test_without_a_transaction_a_job_is_there_at_once(tasks: Callable[[], list[str]]) -> None:
    enqueue("a")
    assert tasks() == ["a"]


def test_a_rollback_takes_the_job_away(tasks: Callable[[], list[str]]) -> None:
    with pytest.raises(RuntimeError), transaction.atomic():
        raise_after(lambda: (enqueue("a"), enqueue_many(["b"] * 3)))
    assert tasks() == []


def raise_after(work: Callable[[], object]) -> None:
    work()
    raise RuntimeError("as the caller does")


def test_a_rollback_to_a_savepoint_takes_only_its_jobs_away(
    tasks: Callable[[], list[str]],
) -> None:
    with transaction.atomic():
        enqueue("before")
        with pytest.raises(RuntimeError), transaction.atomic():
            raise_after(lambda: enqueue("inside"))
        enqueue("after")
    assert tasks() == ["before", "after"]


def test_a_rollback_to_a_savepoint_gives_a_key_back(raw: Raw, schema: str) -> None:
    enqueue("a", {"n": 1}, job_key="k")
    with transaction.atomic():
        with pytest.raises(RuntimeError), transaction.atomic():
            raise_after(lambda: enqueue("a", {"n": 2}, job_key="k"))
        enqueue("b")
    query = sql.SQL("select payload::text, revision from {} where key = 'k'")
    jobs = sql.Identifier(schema, "_private_jobs")
    assert raw.execute(query.format(jobs)).fetchall() == [('{"n":1}', 0)]


def test_workers_hear_of_a_job_with_the_commit_and_never_of_a_rolled_back_one(raw: Raw) -> None:
    raw.execute('listen "jobs:insert"')
    with pytest.raises(RuntimeError), transaction.atomic():
        raise_after(lambda: enqueue("a"))
    with transaction.atomic():
        enqueue_many(["a"] * 7)
        # A round trip: whatever was sent until now would have arrived with its answer.
        raw.execute("select 1")
        assert list(raw.notifies(timeout=0)) == []
    (notice,) = raw.notifies(timeout=5, stop_after=1)
    assert '"count":7' in notice.payload


def test_a_refused_call_leaves_the_transaction_usable(tasks: Callable[[], list[str]]) -> None:
    with transaction.atomic():
        enqueue("before")
        with pytest.raises(InvalidJob):
            enqueue("a", {"n": float("nan")})
        with pytest.raises(InvalidJob):
            enqueue_many(["a", ("b", {1: 2})])
        with pytest.raises(InvalidJob):
            remove_job("")
        enqueue("after")
    assert tasks() == ["before", "after"]


def test_a_call_in_a_transaction_takes_no_savepoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "CHUNK", 2)
    with transaction.atomic(), CaptureQueriesContext(connection) as queries:
        enqueue("a", job_key="k", job_key_mode="unsafe_dedupe")
        enqueue_many(["a"] * 3)
        remove_job("k")
    assert len(queries) == 4
    assert not any("SAVEPOINT" in query["sql"] for query in queries)


def test_without_autocommit_the_transaction_is_the_callers(
    tasks: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "CHUNK", 1)
    transaction.set_autocommit(False)
    try:
        enqueue("a")
        enqueue_many(["b", "c"])
        enqueue("d", job_key="k", job_key_mode="unsafe_dedupe")
        assert tasks() == []
        transaction.rollback()
        enqueue("e")
        transaction.commit()
    finally:
        transaction.set_autocommit(True)
    assert tasks() == ["e"]


def test_many_jobs_outside_of_a_transaction_are_all_or_none(
    tasks: Callable[[], list[str]], raw: Raw, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "CHUNK", 2)
    enqueue("old", job_key="z")
    with raw.transaction():
        raw.execute(
            sql.SQL("select from {} where key = 'z' for update").format(
                sql.Identifier(schema, "_private_jobs")
            )
        )
        with connection.cursor() as cursor:
            cursor.execute("set lock_timeout = '20ms'")
        with pytest.raises(OperationalError) as raised:
            enqueue_many([{"task": "new", "job_key": key} for key in "abcz"])
    assert sqlstate(raised.value) == "55P03"
    assert tasks() == ["old"]
    connection.close()


def test_an_error_in_the_callers_transaction_is_theirs_unmodified(raw: Raw, schema: str) -> None:
    enqueue("a", job_key="k")
    with raw.transaction():
        raw.execute(
            sql.SQL("select from {} where key = 'k' for update").format(
                sql.Identifier(schema, "_private_jobs")
            )
        )
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("set local lock_timeout = '20ms'")
            with pytest.raises(OperationalError) as raised:
                enqueue("a", job_key="k")
            assert isinstance(raised.value.__cause__, psycopg.errors.LockNotAvailable)
            # As after any query that failed: the caller has to leave the block.
            with pytest.raises(psycopg.errors.InFailedSqlTransaction):
                connection.connection.execute("select 1")
            transaction.set_rollback(True)


@contextmanager
def other_alias() -> Iterator[str]:
    """A second alias for the same test database."""
    assert guards.is_set_up()
    connections["other"] = connection.copy("other")
    try:
        yield "other"
    finally:
        connections["other"].close()
        del connections["other"]


def test_using_is_the_alias_whose_transaction_counts(
    tasks: Callable[[], list[str]], settings: LazySettings
) -> None:
    with other_alias() as other:
        with pytest.raises(RuntimeError), transaction.atomic(using=other):
            raise_after(lambda: (enqueue("a", using=other), enqueue_many(["b"], using=other)))
        assert tasks() == []
        with pytest.raises(RuntimeError), transaction.atomic():
            raise_after(lambda: (enqueue("a", using=other), enqueue_many(["b"], using=other)))
        assert tasks() == ["a", "b"]

        settings.GRAPHILE_WORKER = {**settings.GRAPHILE_WORKER, "DATABASES": [other]}
        with transaction.atomic(using=other):
            enqueue("c")
            enqueue_many(["d", {"task": "e", "using": other}])
            assert tasks() == ["a", "b"]
        assert tasks() == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize("atomic", [True, False])
def test_a_view_that_fails_under_atomic_requests_enqueues_nothing(
    tasks: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch, atomic: bool
) -> None:
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", atomic)
    browser = Client(raise_request_exception=False)
    assert browser.get("/fail").status_code == 500
    assert tasks() == ([] if atomic else ["from_a_view"])
    assert int(browser.get("/answer").content) > 0
    assert tasks()[-1] == "from_a_view"


@contextmanager
def when_it_waits(holder: Raw, observer: Raw, do: Callable[[], None]) -> Iterator[None]:
    """Do something in `holder` as soon as Django's own session waits for it, then commit."""
    pid = backend_pid()
    errors: list[BaseException] = []

    def act() -> None:
        try:
            wait_until_blocked(observer, pid, by=holder.info.backend_pid)
            do()
        except BaseException as error:  # noqa: BLE001
            errors.append(error)
        finally:
            holder.commit()

    thread = threading.Thread(target=act)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    assert errors == []


@pytest.fixture
def conflict(connect: Connect, raw: Raw, schema: str) -> Iterator[Callable[[], Any]]:
    """Make the next keyed call of this session fail once with a serialization failure."""
    with connection.cursor() as cursor:
        cursor.execute("set session characteristics as transaction isolation level repeatable read")
    enqueue("a", job_key="k")
    holder = connect(autocommit=False)

    def conflict() -> Any:
        holder.execute(
            sql.SQL("update {} set priority = priority + 1 where key = 'k'").format(
                sql.Identifier(schema, "_private_jobs")
            )
        )
        return when_it_waits(holder, raw, do=lambda: None)

    yield conflict
    connection.close()


@pytest.mark.parametrize(
    "call",
    [
        lambda: enqueue("b", job_key="k"),
        lambda: enqueue("b", job_key="k", job_key_mode="preserve_run_at"),
        lambda: enqueue("b", job_key="k", job_key_mode="unsafe_dedupe"),
        lambda: enqueue_many([("c", None), {"task": "b", "job_key": "k"}])[1],
        lambda: remove_job("k"),
    ],
    ids=["enqueue", "preserve_run_at", "unsafe_dedupe", "enqueue_many", "remove_job"],
)
def test_a_serialization_failure_is_tried_again_outside_of_a_transaction(
    conflict: Callable[[], Any], call: Callable[[], Any]
) -> None:
    with conflict():
        job = call()
    assert job.id
    assert remove_job("k") is not None or job.job_key == "k"


def test_a_serialization_failure_in_the_callers_transaction_is_raised(
    conflict: Callable[[], Any], tasks: Callable[[], list[str]]
) -> None:
    def in_a_transaction(call: Callable[[], object]) -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("select 1")  # the snapshot is taken here
            call()

    for call in (
        lambda: enqueue("b", job_key="k"),
        lambda: enqueue_many([{"task": "b", "job_key": "k"}]),
    ):
        with conflict(), pytest.raises(OperationalError) as raised:
            in_a_transaction(call)
        assert sqlstate(raised.value) == "40001"
        assert tasks() == ["a"]


@pytest.mark.parametrize(
    ("error", "calls"),
    [
        (psycopg.errors.DeadlockDetected, transactions.TRIES),
        (psycopg.errors.SerializationFailure, transactions.TRIES),
        (psycopg.errors.LockNotAvailable, 1),
        (psycopg.errors.QueryCanceled, 1),
        (psycopg.OperationalError, 1),
    ],
)
def test_trying_again_is_bounded_and_only_for_what_can_heal(
    error: type[psycopg.Error], calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("django_graphile_worker.transactions.time.sleep", pauses.append)
    made = []

    def work(cursor: Any) -> None:
        made.append(cursor)
        raise OperationalError from error()

    with pytest.raises(OperationalError):
        transactions.run(None, work)
    assert len(made) == calls
    assert len(pauses) == calls - 1
    assert all(0 <= pause <= 0.01 * 2**tries for tries, pause in enumerate(pauses, start=1))

    made.clear()
    with pytest.raises(OperationalError), transaction.atomic():
        transactions.run(None, work)
    assert len(made) == 1
