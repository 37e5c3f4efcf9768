"""The models read the queue as it is, wherever routers point, and write nothing."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, models
from psycopg import sql
from pytest_django import DjangoAssertNumQueries

from django_graphile_worker.conf import get_config
from django_graphile_worker.models import (
    Job,
    JobError,
    JobQueue,
    KeyConflict,
    KnownCrontab,
    LockedJob,
    LockedQueue,
    Task,
    Worker,
)
from django_graphile_worker.readonly import ReadOnlyModel
from tests.doors.conftest import AddJob

MODELS: list[type[ReadOnlyModel]] = [
    Job,
    JobError,
    JobQueue,
    KeyConflict,
    KnownCrontab,
    LockedJob,
    LockedQueue,
    Task,
    Worker,
]


class ReplicaFirst:
    """Sends every read, and everything related, to where there is no database at all."""

    def db_for_read(self, model: type[models.Model], **hints: Any) -> str:
        return "replica"

    db_for_write = db_for_read


@pytest.fixture
def _replica_first(settings: Any) -> None:
    settings.DATABASE_ROUTERS = [ReplicaFirst()]


LOCKED = {"locked_at": "now()", "locked_by": "'w'", "attempts": "1"}
FAILED = {"attempts": "25", "last_error": "'no'"}


def test_jobs_are_found_by_their_state(add_job: AddJob) -> None:
    due = add_job()
    due_retry = add_job(attempts="3")
    scheduled = add_job(run_at="now() + interval '1 second'")
    locked = add_job(**LOCKED)
    locked_last = add_job(**LOCKED | {"attempts": "25"})
    failed = add_job(**FAILED)
    failed_later = add_job(**FAILED, run_at="now() + interval '1 day'")

    def ids(jobs: models.QuerySet[Job]) -> set[int]:
        return set(jobs.values_list("pk", flat=True))

    assert ids(Job.objects.all()) - {scheduled} == {
        due,
        due_retry,
        locked,
        locked_last,
        failed,
        failed_later,
    }
    assert ids(Job.objects.due()) == {due, due_retry}
    assert ids(Job.objects.locked()) == {locked, locked_last}
    assert ids(Job.objects.failed()) == {failed, failed_later}


def test_locked_and_failed_use_the_small_index(add_job: AddJob, schema: str) -> None:
    add_job()
    with connection.cursor() as cursor:
        cursor.execute("set local enable_seqscan = off")
    for jobs in (Job.objects.locked(), Job.objects.failed()):
        assert "django_jobs_locked" in jobs.explain()


def test_a_job_is_read_whole(add_job: AddJob) -> None:
    pk = add_job(
        task="send",
        queue="letters",
        payload="""'{"to" : "a@b"}'""",
        key="'k'",
        flags="""'{"slow": true}'""",
        run_at="'2030-01-02 03:04:05.678901Z'",
    )
    job = Job.objects.select_related("task", "job_queue").get(pk=pk)
    assert job.task.identifier == "send"
    assert job.job_queue is not None
    assert job.job_queue.queue_name == "letters"
    assert job.payload == '{"to" : "a@b"}'
    assert (job.key, job.flags, job.priority, job.attempts) == ("k", {"slow": True}, 0, 0)
    assert job.run_at == datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    assert job.locked_at is None
    assert str(job) == str(pk)


def test_the_names_come_along(
    add_job: AddJob, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    add_job(task="send", queue="letters")
    add_job(task="print")
    with django_assert_num_queries(1):
        jobs: Any = Job.objects.with_names().order_by("pk")
        rows = [(job.task_identifier, job.queue_name) for job in jobs]
    assert rows == [("send", "letters"), ("print", None)]


def test_a_job_whose_task_is_gone_is_still_seen(add_job: AddJob, schema: str) -> None:
    pk = add_job()
    with connection.cursor() as cursor:
        cursor.execute(sql.SQL("delete from {}").format(sql.Identifier(schema, "_private_tasks")))
    jobs: Any = Job.objects.with_names()
    assert [(job.pk, job.task_identifier) for job in jobs] == [(pk, None)]


@pytest.mark.parametrize(
    ("stored", "read"),
    [
        ("infinity", datetime(9999, 12, 30, tzinfo=UTC)),
        ("-infinity", datetime(1, 1, 2, tzinfo=UTC)),
        ("20000-01-01", datetime(9999, 12, 30, tzinfo=UTC)),
        ("0044-03-15 BC", datetime(1, 1, 2, tzinfo=UTC)),
        ("1969-07-20 20:17Z", datetime(1969, 7, 20, 20, 17, tzinfo=UTC)),
    ],
)
@pytest.mark.parametrize("time_zone", ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago"])
def test_times_beyond_pythons_years_are_read(
    add_job: AddJob, settings: Any, stored: str, read: datetime, time_zone: str
) -> None:
    settings.TIME_ZONE = time_zone  # +14 and -11
    pk = add_job(run_at=f"'{stored}'::timestamptz")
    job = Job.objects.get(run_at__isnull=False)
    assert job.run_at == read
    assert Job.objects.order_by("run_at").values_list("run_at", flat=True).get() == read
    assert Job.objects.aggregate(latest=models.Max("run_at")) == {"latest": read}
    deferred = Job.objects.defer("run_at").get(pk=pk)
    assert deferred.run_at == read


def test_a_time_far_away_is_compared_as_it_is(add_job: AddJob) -> None:
    add_job(run_at="'infinity'")
    add_job(run_at="'-infinity'")
    assert Job.objects.filter(run_at__gt=datetime(9999, 12, 31, tzinfo=UTC)).count() == 1
    assert Job.objects.due().count() == 1


@pytest.mark.parametrize(
    "payload",
    [
        "[" * 5000 + "]" * 5000,
        "1e400",
        '"\\ud800\\u0000"',
        '{"a": 1, "a": 2}',
        "1" * 10_000,
    ],
    ids=["deep", "large", "surrogate", "twice", "long"],
)
def test_a_payload_that_python_cannot_decode_is_read_as_text(add_job: AddJob, payload: str) -> None:
    add_job(payload=f"'{payload}'")
    assert Job.objects.get().payload == payload


@pytest.mark.parametrize("pk", [2**31, 2**63 - 1])
def test_ids_are_64_bits_wide(add_job: AddJob, schema: str, pk: int) -> None:
    add_job()
    with connection.cursor() as cursor:
        cursor.execute(
            sql.SQL(
                "insert into {table} (id, task_id) overriding system value"
                " select %s, task_id from {table}"
            ).format(table=sql.Identifier(schema, "_private_jobs")),
            [pk],
        )
    assert Job.objects.get(pk=pk).pk == pk


@pytest.mark.django_db
@pytest.mark.parametrize("model", MODELS)
def test_every_model_reads_its_table(model: type[ReadOnlyModel]) -> None:
    assert list(model.objects.all()) == []


@pytest.mark.parametrize("model", MODELS)
def test_nothing_can_be_written(model: type[ReadOnlyModel]) -> None:
    row = model()
    rows: Any = model.objects.all()
    for write in (
        row.save,
        row.delete,
        lambda: asyncio.run(row.asave()),
        lambda: asyncio.run(row.adelete()),
        rows.create,
        rows.get_or_create,
        rows.update_or_create,
        lambda: rows.update(id=1),
        rows.delete,
        lambda: rows.bulk_create([row]),
        lambda: rows.bulk_update([row], ["id"]),
        lambda: rows._raw_delete("default"),
        model.objects.create,
        lambda: model.objects.bulk_create([row]),
        lambda: model.objects.update(id=1),
        lambda: model._base_manager.all().update(**{"id": 1}),
        lambda: model._default_manager.all().delete(),
        lambda: asyncio.run(rows.acreate()),
        lambda: asyncio.run(rows.aupdate(id=1)),
        lambda: asyncio.run(rows.adelete()),
        lambda: asyncio.run(rows.abulk_create([row])),
    ):
        with pytest.raises(TypeError, match=f"{model.__name__} is read-only"):
            write()


@pytest.mark.usefixtures("_replica_first")
def test_no_router_is_asked(add_job: AddJob) -> None:
    pk = add_job(task="send", queue="letters")
    assert Job.objects.count() == 1
    job = Job.objects.get(pk=pk)
    assert job.task.identifier == "send"
    assert job.job_queue is not None
    assert job.job_queue.queue_name == "letters"
    job.refresh_from_db()
    assert Job.objects.defer("payload").get(pk=pk).payload == "{}"
    assert [row.task.identifier for row in Job.objects.prefetch_related("task")] == ["send"]
    named: Any = Job.objects.with_names().get()
    assert named.task_identifier == "send"
    for model in MODELS:
        assert model.objects.all().db == "default"


def test_another_alias_can_be_named(settings: Any) -> None:
    settings.GRAPHILE_WORKER = {"DATABASES": ["queue", "other"], "SCHEMA": get_config().schema}
    for model in MODELS:
        assert model.objects.all().db == "queue"
        assert model.objects.using("other").db == "other"
        assert model.objects.db_manager("other").all().db == "other"


def test_what_belongs_to_a_row_is_read_where_the_row_was() -> None:
    job = Job(id=1, task_id=1)
    job._state.db = "other"
    tasks = Task._base_manager.db_manager(hints={"instance": job}).all()
    assert tasks.db == "other"


def test_a_row_of_the_project_does_not_decide() -> None:
    from django.contrib.auth.models import User

    user = User()
    user._state.db = "other"
    assert Job._base_manager.db_manager(hints={"instance": user}).all().db == "default"


@pytest.mark.django_db
def test_workers_and_failed_attempts_are_read_whole(schema: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            sql.SQL(
                "insert into {} (worker_id, host, pid, concurrency, heartbeat, stale_after)"
                " values ('django:h:1:x', 'h', 1, 10, '5 s', '1 min 0.5 s')"
            ).format(sql.Identifier(schema, "django_workers"))
        )
        cursor.execute(
            sql.SQL(
                "insert into {} (job_id, task_identifier, attempt, max_attempts, error, worker_id)"
                " values (7, 'send', 2, 25, 'ValueError: no', 'django:h:1:x')"
            ).format(sql.Identifier(schema, "django_job_errors"))
        )
    worker = Worker.objects.get()
    assert (worker.worker_id, worker.host, worker.pid) == ("django:h:1:x", "h", 1)
    assert worker.heartbeat == timedelta(seconds=5)
    assert worker.stale_after == timedelta(seconds=60.5)
    assert worker.started_at == worker.last_beat_at == worker.watching_since
    assert (worker.stopping_at, worker.dead_at) == (None, None)
    assert str(worker) == "django:h:1:x"
    error = JobError.objects.get()
    assert (error.job_id, error.task_identifier, error.error) == (7, "send", "ValueError: no")
    assert (error.attempt, error.max_attempts, error.worker_id) == (2, 25, "django:h:1:x")
    assert error.locked_at is None
    assert str(error) == "7 (2)"
