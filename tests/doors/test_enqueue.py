"""Enqueueing and the operators' verbs, on a real database, with both ways to bind parameters."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.conf import LazySettings
from django.db import ProgrammingError, connection, transaction
from django.db.backends.postgresql.base import ServerBindingCursor
from django.db.utils import ConnectionHandler
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from psycopg import sql
from pytest_django import DjangoAssertNumQueries

from django_graphile_worker import (
    EnqueuedJob,
    StoredJob,
    client,
    complete_jobs,
    enqueue,
    enqueue_many,
    force_unlock_workers,
    pause_queue,
    permanently_fail_jobs,
    remove_job,
    reschedule_jobs,
    resume_queue,
    task,
    transactions,
)
from django_graphile_worker.exceptions import (
    InvalidJob,
    JobNotStored,
    QueueInUse,
    UnsupportedDatabase,
)
from django_graphile_worker.registry import registry
from django_graphile_worker.sql.loader import quote
from tests.unit.test_payloads import documents

Rows = list[dict[str, Any]]


@pytest.fixture(autouse=True, params=["client", "server"])
def _queue(request: pytest.FixtureRequest, db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bind parameters in the client, which is Django's default, and in the server."""
    connection.ensure_connection()
    if request.param == "server":
        # What OPTIONS["server_side_binding"] does to a new connection.
        monkeypatch.setattr(connection.connection, "cursor_factory", ServerBindingCursor)
    monkeypatch.setattr(registry, "_tasks", dict(registry._tasks))


@pytest.fixture
def run(schema: str) -> Callable[..., Rows]:
    """Run a statement with `{}` for a name in the schema, and return its rows as dicts."""

    def run(text: str, *names: str, **params: Any) -> Rows:
        qualified = [sql.Identifier(schema, name) for name in names]
        with connection.cursor() as cursor:
            cursor.execute(sql.SQL(text).format(*qualified), params or None)
            if cursor.description is None:
                return []
            columns = [column.name for column in cursor.description]
            return [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]

    return run


@pytest.fixture
def stored(run: Callable[..., Rows]) -> Callable[[], Rows]:
    """Return all jobs, by id, with their payload."""

    def stored() -> Rows:
        return run(
            "select j.*, p.payload::text from {} j join {} p using (id) order by id",
            "jobs",
            "_private_jobs",
        )

    return stored


@pytest.fixture
def lock(run: Callable[..., Rows]) -> Callable[[int], None]:
    """Lock a job as a worker would."""

    def lock(job_id: int) -> None:
        run(
            "update {} set locked_at = now(), locked_by = 'worker-1', attempts = attempts + 1"
            " where id = %(id)s",
            "_private_jobs",
            id=job_id,
        )

    return lock


def test_a_job_is_returned_as_it_is_stored(stored: Callable[[], Rows]) -> None:
    run_at = datetime(2031, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)
    job = enqueue(
        "send_letter",
        {"to": "é%s@b", "n": [1, None, 2.5]},
        queue_name="let%ters",
        run_at=run_at,
        max_attempts=7,
        job_key="kéy '1'",
        priority=-3,
        flags=["slow", "b c"],
    )
    (row,) = stored()
    assert job == EnqueuedJob(
        id=row["id"],
        task_identifier="send_letter",
        queue_name="let%ters",
        job_key="kéy '1'",
        revision=0,
        run_at=run_at,
        priority=-3,
        attempts=0,
        max_attempts=7,
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        flags=("b c", "slow"),
    )
    assert (row["task_identifier"], row["queue_name"], row["key"]) == (
        "send_letter",
        "let%ters",
        "kéy '1'",
    )
    assert (row["run_at"], row["priority"], row["max_attempts"]) == (run_at, -3, 7)
    assert json.loads(row["payload"]) == {"to": "é%s@b", "n": [1, None, 2.5]}


def test_a_job_with_nothing_said_has_the_defaults(
    stored: Callable[[], Rows], settings: LazySettings
) -> None:
    settings.GRAPHILE_WORKER = {**settings.GRAPHILE_WORKER, "MAX_ATTEMPTS": 9}
    job = enqueue("send_letter")
    (row,) = stored()
    assert row["payload"] == "{}"
    assert (row["priority"], row["max_attempts"], row["flags"]) == (0, 9, None)
    assert (job.queue_name, job.job_key, job.flags, job.max_attempts) == (None, None, (), 9)
    assert job.run_at == job.created_at == row["run_at"]


def test_an_enqueue_is_one_round_trip_and_no_savepoint(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    with django_assert_num_queries(1):
        enqueue("send_letter", {"to": "a"}, job_key="k")
    with django_assert_num_queries(1):
        enqueue("send_letter", {"to": "a"}, job_key="k")
    with django_assert_num_queries(1):
        enqueue_many([("send_letter", {"to": "a"}), ("send_letter", {"to": "b"})])


def test_a_task_enqueues_itself(stored: Callable[[], Rows]) -> None:
    @task("letters.send", queue_name="letters", max_attempts=3)
    def send(to: str, subject: str = "Hi", **more: Any) -> None: ...

    first = send.enqueue(to="a", cc="c")
    second = send.enqueue("b", "Hello")
    third = send.using(job_key="k", queue_name=None).enqueue(to="d")
    fourth = enqueue(send, {"to": "e"}, max_attempts=1)
    fifth = enqueue("letters.send", {"to": "f"})
    assert [json.loads(row["payload"]) for row in stored()] == [
        {"to": "a", "cc": "c"},
        {"to": "b", "subject": "Hello"},
        {"to": "d"},
        {"to": "e"},
        {"to": "f"},
    ]
    assert [job.queue_name for job in (first, second, third, fourth, fifth)] == [
        "letters",
        "letters",
        None,
        "letters",
        "letters",
    ]
    assert (third.job_key, fourth.max_attempts, fifth.max_attempts) == ("k", 1, 3)


def test_a_refused_call_sends_no_sql(
    django_assert_num_queries: DjangoAssertNumQueries, stored: Callable[[], Rows]
) -> None:
    @task
    def send(to: str) -> None: ...

    @task
    def print_all(items: list[int], /) -> None: ...

    with django_assert_num_queries(0):
        for call in (
            lambda: enqueue("send", {"n": float("nan")}),
            lambda: enqueue(send, {"too": "a"}),
            lambda: enqueue("a", job_key=""),
            lambda: send.enqueue(),  # type: ignore[call-arg]
            lambda: send.enqueue(to="a", cc="b"),  # type: ignore[call-arg]
            lambda: print_all.enqueue([1]),
            lambda: enqueue_many(["a", ("send", None)]),
            lambda: enqueue_many(["a"], job_key_preserve_run_at=1),  # type: ignore[arg-type]
            lambda: remove_job(""),
            lambda: complete_jobs(["1"]),  # type: ignore[list-item]
            lambda: permanently_fail_jobs([1], "\0"),
            lambda: reschedule_jobs([1]),
            lambda: reschedule_jobs([1], attempts=-1),
            lambda: force_unlock_workers("worker"),
            lambda: pause_queue(""),
            lambda: resume_queue("q" * 129),
        ):
            with pytest.raises(InvalidJob):
                call()
    assert stored() == []
    enqueue("the_transaction_is_still_usable")


def test_a_delay_counts_from_the_call_on_the_databases_clock(run: Callable[..., Rows]) -> None:
    (before,) = run("select now() as began, statement_timestamp() as at")
    job = enqueue("a", run_at=timedelta(0))
    later = enqueue("a", run_at=timedelta(days=3, seconds=-1, microseconds=5))
    (after,) = run("select statement_timestamp() as at")
    assert before["began"] <= before["at"] < job.run_at < after["at"]
    assert before["at"] < later.run_at - timedelta(days=3, seconds=-1, microseconds=5) < after["at"]
    assert enqueue("a").run_at == before["began"]

    jobs = enqueue_many(
        [{"task": "a", "run_at": timedelta(days=3, seconds=-1, microseconds=5)}, "a"]
    )
    (end,) = run("select statement_timestamp() as at")
    assert after["at"] < jobs[0].run_at - timedelta(days=3, seconds=-1, microseconds=5) < end["at"]
    assert jobs[1].run_at == before["began"]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_times_are_aware_and_in_utc_whatever_use_tz_says(settings: LazySettings, zone: str) -> None:
    settings.USE_TZ = False
    settings.TIME_ZONE = zone
    run_at = datetime(2031, 7, 1, 12, tzinfo=UTC)
    job = enqueue("a", run_at=run_at)
    (bulk,) = enqueue_many([{"task": "a", "run_at": run_at}])
    assert repr(job.run_at) == repr(bulk.run_at) == repr(run_at)
    assert job.created_at.tzinfo is UTC
    now = datetime.now(UTC)
    assert abs(now - job.created_at) < timedelta(minutes=5)
    naive = enqueue("a", run_at=datetime(2031, 7, 1, 12))  # noqa: DTZ001
    assert naive.run_at == run_at + timedelta(hours=4 if zone != "UTC" else 0)


@pytest.mark.parametrize("year", [1, 4000, 9999])
def test_far_times_come_back(year: int) -> None:
    run_at = datetime(year, 6, 7, 8, 9, 10, 11, tzinfo=UTC)
    assert enqueue("a", run_at=run_at).run_at == run_at
    assert enqueue_many([{"task": "a", "run_at": run_at}])[0].run_at == run_at


@pytest.mark.parametrize("end", ["infinity", "-infinity", "4000-01-01 BC", "20000-01-01"])
def test_a_time_beyond_pythons_reach_is_cut_and_not_an_error(
    run: Callable[..., Rows], end: str
) -> None:
    job = enqueue("a", job_key="k")
    run("update {} set run_at = %(end)s::timestamptz", "_private_jobs", end=end)
    again = enqueue("a", job_key="k", job_key_mode="unsafe_dedupe")
    assert again.id == job.id
    assert again.run_at.year in (1, 9999)
    (changed,) = reschedule_jobs([job.id], priority=1)
    assert changed.run_at == again.run_at


def test_the_same_key_changes_the_stored_job(stored: Callable[[], Rows]) -> None:
    first = enqueue("a", {"n": 1}, job_key="k", queue_name="q", run_at=timedelta(hours=1))
    second = enqueue("b", {"n": 2}, job_key="k", flags=["f"])
    assert second.id == first.id
    assert (second.revision, second.task_identifier, second.queue_name) == (1, "b", None)
    assert second.flags == ("f",)
    assert second.run_at < first.run_at
    (row,) = stored()
    assert (row["task_identifier"], row["queue_name"], row["payload"]) == ("b", None, '{"n":2}')


def test_a_preserved_run_at_stays(stored: Callable[[], Rows]) -> None:
    first = enqueue("a", job_key="k", run_at=timedelta(hours=1))
    second = enqueue("a", {"n": 2}, job_key="k", job_key_mode="preserve_run_at")
    assert (second.id, second.run_at) == (first.id, first.run_at)
    (third,) = enqueue_many(
        [{"task": "a", "job_key": "k", "payload": {"n": 3}}], job_key_preserve_run_at=True
    )
    assert (third.id, third.run_at, third.revision) == (first.id, first.run_at, 2)
    assert stored()[0]["payload"] == '{"n":3}'
    (fourth,) = enqueue_many([{"task": "a", "job_key": "k"}])
    assert fourth.run_at < first.run_at


def test_deduplicating_returns_the_job_that_is_there(
    django_assert_num_queries: DjangoAssertNumQueries, lock: Callable[[int], None]
) -> None:
    first = enqueue("a", job_key="k", job_key_mode="unsafe_dedupe", queue_name="q", flags=["f"])
    assert (first.revision, first.task_identifier) == (0, "a")
    lock(first.id)
    with django_assert_num_queries(2):
        again = enqueue("b", {"n": 2}, job_key="k", job_key_mode="unsafe_dedupe", priority=5)
    assert (again.id, again.task_identifier, again.queue_name) == (first.id, "a", "q")
    assert (again.revision, again.priority, again.flags) == (1, 0, ("f",))


def test_arrays_under_one_key_are_joined(stored: Callable[[], Rows]) -> None:
    enqueue("a", [1], job_key="k")
    enqueue("a", (2, 3), job_key="k")
    enqueue_many([{"task": "a", "payload": [n], "job_key": "k"} for n in (4, 5)])
    (row,) = stored()
    assert json.loads(row["payload"]) == [1, 2, 3, 4, 5]


def test_a_running_job_is_superseded_by_a_new_one(lock: Callable[[int], None]) -> None:
    first = enqueue("a", job_key="k")
    lock(first.id)
    second = enqueue("a", job_key="k")
    assert second.id != first.id
    assert (second.revision, second.job_key, second.attempts) == (0, "k", 0)
    lock(second.id)
    (third,) = enqueue_many([{"task": "a", "job_key": "k"}])
    assert third.id not in (first.id, second.id)


@hypothesis_settings(
    deadline=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(document=documents)
def test_what_is_accepted_is_stored_unchanged_and_is_sound_jsonb(
    document: Any, run: Callable[..., Rows]
) -> None:
    document = {"value": document}
    ids = [enqueue("a", document).id, *(job.id for job in enqueue_many([("a", document)]))]
    rows = run(
        "select payload::text, payload::jsonb::text as binary from {} where id = any(%(ids)s)",
        "_private_jobs",
        ids=ids,
    )
    assert [json.loads(row["payload"]) for row in rows] == [document, document]
    assert len({row["payload"] for row in rows}) == 1
    assert all(row["binary"].startswith('{"value": ') for row in rows)


def test_many_jobs_come_back_in_the_order_given(stored: Callable[[], Rows]) -> None:
    enqueue("old", job_key="b", priority=9)
    jobs = enqueue_many(
        [
            {"task": "t0", "payload": [0], "priority": 3},
            {"task": "t1", "job_key": "c", "queue_name": "q", "flags": ["y", "x"]},
            ("t2", {"n": "2"}),
            {"task": "t3", "job_key": "b", "max_attempts": 2},
            {"task": "t4", "job_key": "a", "run_at": datetime(2031, 1, 1, tzinfo=UTC)},
            "t5",
        ]
    )
    assert [job.task_identifier for job in jobs] == [f"t{n}" for n in range(6)]
    assert [job.job_key for job in jobs] == [None, "c", None, "b", "a", None]
    assert [job.revision for job in jobs] == [0, 0, 0, 1, 0, 0]
    assert (jobs[0].priority, jobs[3].priority, jobs[3].max_attempts) == (3, 0, 2)
    assert (jobs[1].queue_name, jobs[1].flags) == ("q", ("x", "y"))
    assert jobs[4].run_at == datetime(2031, 1, 1, tzinfo=UTC)
    rows = {row["id"]: row for row in stored()}
    assert [rows[job.id]["task_identifier"] for job in jobs] == [f"t{n}" for n in range(6)]
    assert [rows[job.id]["payload"] for job in jobs][:3] == ["[0]", "{}", '{"n":"2"}']


def test_the_order_of_keys_holds_across_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "CHUNK", 3)
    keys = [None, "b", "é", "Z", None, "a", "😀", "￿", "_", "aa", None]
    jobs = enqueue_many([{"task": "t", "job_key": key} for key in keys])
    assert [job.job_key for job in jobs] == keys
    by_id = [job.job_key for job in sorted(jobs, key=lambda job: job.id)]
    in_bytes = sorted((key for key in keys if key), key=lambda key: key.encode())
    assert by_id == [*in_bytes, None, None, None]


@pytest.mark.parametrize("chunk", [1, 2, 3, 100])
def test_a_key_that_stands_several_times_is_as_if_added_in_turn(
    monkeypatch: pytest.MonkeyPatch, stored: Callable[[], Rows], chunk: int
) -> None:
    monkeypatch.setattr(client, "CHUNK", chunk)
    jobs = enqueue_many(
        [
            {"task": "a", "payload": [1], "job_key": "k", "queue_name": "q"},
            ("other", None),
            {"task": "b", "payload": [2], "job_key": "k"},
            {"task": "c", "payload": [3], "job_key": "k", "priority": 4},
        ]
    )
    assert jobs[0] == jobs[2] == jobs[3]
    assert (jobs[0].task_identifier, jobs[0].queue_name, jobs[0].priority) == ("c", None, 4)
    assert jobs[0].revision == 2
    assert jobs[1].task_identifier == "other"
    payloads = {row["task_identifier"]: row["payload"] for row in stored()}
    assert json.loads(payloads["c"]) == [1, 2, 3]


def test_chunks_are_bounded_in_characters(
    monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    monkeypatch.setattr(client, "CHUNK_CHARACTERS", 1000)
    specs = [("t", "x" * size) for size in (400, 400, 400, 2000, 2000, 10)]
    with django_assert_num_queries(5):
        jobs = enqueue_many(specs)
    assert len({job.id for job in jobs}) == 6


def test_more_than_one_full_chunk_is_one_call(stored: Callable[[], Rows]) -> None:
    jobs = enqueue_many(
        {"task": "t", "payload": {"n": n}, "job_key": f"k{n}" if n % 2 else None}
        for n in range(10_001)
    )
    rows = {row["id"]: row["payload"] for row in stored()}
    assert len(rows) == 10_001
    assert [rows[job.id] for job in jobs] == [f'{{"n":{n}}}' for n in range(10_001)]


def test_no_jobs_are_no_sql(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    with django_assert_num_queries(0):
        assert enqueue_many([]) == []


def test_a_function_that_stores_nothing_is_told_as_not_ours(schema: str) -> None:
    enqueue("a")
    name = quote(schema)
    with connection.cursor() as cursor:
        cursor.execute(
            f"create or replace function {name}.add_job("
            "  identifier text, payload json = null, queue_name text = null,"
            "  run_at timestamptz = null, max_attempts int = null, job_key text = null,"
            "  priority int = null, flags text[] = null, job_key_mode text = 'replace'"
            f") returns {name}._private_jobs language plpgsql as 'begin return null; end'"
        )
        cursor.execute(
            f"create or replace function {name}.add_jobs("
            f"  specs {name}.job_spec[], job_key_preserve_run_at boolean = false"
            f") returns setof {name}._private_jobs language plpgsql as"
            f" $$ begin return query select * from {name}._private_jobs limit 1; end $$"
        )
    with pytest.raises(JobNotStored, match=r"add_job stored 0 of 1 jobs .* it is not the function"):
        enqueue("a")
    with pytest.raises(JobNotStored):
        enqueue("a", job_key="k", job_key_mode="unsafe_dedupe")
    with pytest.raises(JobNotStored, match="add_jobs stored 1 of 2 jobs"):
        enqueue_many(["a", "b"])


def test_removing_by_key(stored: Callable[[], Rows], lock: Callable[[int], None]) -> None:
    assert remove_job("k") is None
    job = enqueue("a", job_key="k", queue_name="q", flags=["f"])
    removed = remove_job("k")
    assert removed is not None
    assert (removed.id, removed.task_identifier, removed.queue_name) == (job.id, "a", "q")
    assert (removed.locked_by, removed.flags) == (None, ("f",))
    assert stored() == []

    running = enqueue("a", job_key="k")
    lock(running.id)
    removed = remove_job("k")
    assert removed is not None
    assert (removed.id, removed.locked_by, removed.job_key) == (running.id, "worker-1", None)
    assert removed.locked_at is not None
    assert removed.locked_at.tzinfo is UTC
    assert removed.attempts == removed.max_attempts
    assert len(stored()) == 1


def test_operators_verbs_change_free_jobs_and_return_them(
    stored: Callable[[], Rows], lock: Callable[[int], None], run: Callable[..., Rows]
) -> None:
    jobs = [enqueue(f"t{n}", queue_name="q") for n in range(6)]
    ids = [job.id for job in jobs]
    lock(ids[5])

    completed = complete_jobs([ids[1], ids[0], ids[5], 987_654_321])
    assert [(job.id, job.task_identifier, job.queue_name) for job in completed] == [
        (ids[0], "t0", "q"),
        (ids[1], "t1", "q"),
    ]
    assert all(isinstance(job, StoredJob) for job in completed)

    (failed,) = permanently_fail_jobs([ids[2], ids[5]], "no 'more' %s")
    assert (failed.id, failed.attempts, failed.max_attempts) == (ids[2], 25, 25)
    assert failed.last_error == "no 'more' %s"
    (failed,) = permanently_fail_jobs([ids[3]])
    assert failed.last_error

    (moved,) = reschedule_jobs(
        [ids[2], ids[5]],
        run_at=datetime(2031, 1, 1, tzinfo=UTC),
        priority=-2,
        attempts=0,
        max_attempts=3,
    )
    assert (moved.run_at, moved.priority) == (datetime(2031, 1, 1, tzinfo=UTC), -2)
    assert (moved.attempts, moved.max_attempts) == (0, 3)
    (moved,) = reschedule_jobs([ids[2]], run_at=timedelta(0))
    (clock,) = run("select now() as began, clock_timestamp() as at")
    assert clock["began"] <= moved.run_at <= clock["at"]
    assert moved.priority == -2

    assert [row["id"] for row in stored()] == ids[2:]
    assert complete_jobs([]) == permanently_fail_jobs([]) == reschedule_jobs([], priority=1) == []


def test_unlocking_a_worker_frees_its_jobs_and_queues(
    lock: Callable[[int], None], stored: Callable[[], Rows], run: Callable[..., Rows]
) -> None:
    job = enqueue("a", queue_name="q")
    lock(job.id)
    run("update {} set locked_at = now(), locked_by = 'worker-1'", "_private_job_queues")
    force_unlock_workers([])
    force_unlock_workers(["another"])
    assert stored()[0]["locked_by"] == "worker-1"
    force_unlock_workers(["another", "worker-1"])
    assert stored()[0]["locked_by"] is None
    assert run("select locked_by from {}", "_private_job_queues") == [{"locked_by": None}]


def test_a_queue_is_paused_and_resumed(
    lock: Callable[[int], None], run: Callable[..., Rows]
) -> None:
    assert resume_queue("q") is False
    assert (pause_queue("q"), pause_queue("q")) == (True, False)
    job = enqueue("a", queue_name="q")
    lock(job.id)
    with pytest.raises(QueueInUse, match=rf"'q' cannot be resumed yet: .* holds job {job.id},"):
        resume_queue("q")
    # The transaction is usable, and the queue is as it was.
    assert pause_queue("q") is False
    assert [done.id for done in complete_jobs([job.id])] == []
    run("update {} set locked_at = null, locked_by = null", "_private_jobs")
    assert (resume_queue("q"), resume_queue("q")) == (True, False)
    assert run("select locked_by, locked_at from {}", "_private_job_queues") == [
        {"locked_by": None, "locked_at": None}
    ]


def test_a_job_whose_task_was_deleted_by_hand_can_still_be_completed(
    run: Callable[..., Rows],
) -> None:
    job = enqueue("a")
    run("delete from {}", "_private_tasks")
    (completed,) = complete_jobs([job.id])
    assert (completed.id, completed.task_identifier) == (job.id, "")


def test_an_alias_that_is_not_postgresql_is_refused_saying_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lite = ConnectionHandler(
        {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
    )
    monkeypatch.setattr(transactions, "connections", lite)
    with pytest.raises(UnsupportedDatabase, match=r"'default' is SQLite.*DATABASES"):
        enqueue("a")
    with pytest.raises(UnsupportedDatabase, match="SQLite"):
        enqueue_many(["a"])


def test_an_alias_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UnsupportedDatabase, match="no database alias 'nowhere'"):
        enqueue("a", using="nowhere")
    with pytest.raises(UnsupportedDatabase, match="no database alias 'nowhere'"):
        remove_job("k", using="nowhere")


def test_psycopg2_is_refused_saying_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django.db.backends.postgresql.psycopg_any.is_psycopg3", False)
    with pytest.raises(UnsupportedDatabase, match=r"install psycopg>=3.2"):
        enqueue("a")


def test_an_error_of_the_database_is_let_through(run: Callable[..., Rows]) -> None:
    def enqueue_without_function() -> None:
        with transaction.atomic():
            run("alter function {} rename to away", "add_job")
            enqueue("a")

    with pytest.raises(ProgrammingError, match="does not exist") as raised:
        enqueue_without_function()
    assert isinstance(raised.value.__cause__, psycopg.errors.UndefinedFunction)
    enqueue("a")
