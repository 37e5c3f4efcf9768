"""Workers, named queues, tasks failed attempts: lists that cost the same at any size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin.utils import quote
from django.db import connection
from django.db.models import Model
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from psycopg import sql
from pytest_django import DjangoAssertNumQueries

from django_graphile_worker.admin import counts
from django_graphile_worker.models import JobError, JobQueue, Task, Worker
from tests.doors.admin.conftest import LogIn
from tests.doors.conftest import AddJob

pytestmark = pytest.mark.django_db

MODELS: list[type[Model]] = [JobError, JobQueue, Task, Worker]
LONG_AGO = sql.SQL("now() - interval '1 hour'")
EVIL = "\"'><img src=x onerror=alert(1)>"
LARGE = 2**53 + 1

AddWorker = Callable[..., None]


def list_of(model: type[Model], **query: str) -> tuple[str, dict[str, str]]:
    return reverse(f"admin:graphile_worker_{model._meta.model_name}_changelist"), query


def rows(client: Client, model: type[Model], **query: str) -> list[Any]:
    response = client.get(*list_of(model, **query))
    assert response.status_code == 200
    return list(response.context["cl"].result_list)


@pytest.fixture
def viewer(log_in: LogIn) -> Client:
    return log_in(*(f"view_{model._meta.model_name}" for model in MODELS))


@pytest.mark.parametrize("model", MODELS)
def test_only_who_may_view_the_model_sees_it(log_in: LogIn, model: type[Model]) -> None:
    url, _query = list_of(model)
    others = [other for other in MODELS if other is not model]
    client = log_in(*(f"view_{other._meta.model_name}" for other in others))
    assert client.get(url).status_code == 403
    assert client.get(list_of(others[0])[0]).status_code == 200


def test_a_worker_is_shown_with_its_verdict_and_what_it_holds(
    viewer: Client, add_worker: AddWorker, add_job: AddJob
) -> None:
    add_worker("django:a")
    add_worker("django:b", last_beat_at=LONG_AGO)
    for _ in range(3):
        add_job(locked_at="now()", locked_by="'django:a'")
    found = {row.worker_id: (row.verdict, row.held) for row in rows(viewer, Worker)}
    assert found == {"django:a": ("alive", 3), "django:b": ("stale", 0)}
    page = viewer.get(reverse("admin:graphile_worker_worker_change", args=[quote("django:b")]))
    assert "silent for longer" in page.content.decode()


def waiting(client: Client, model: type[Model]) -> dict[str, tuple[str, str]]:
    """What the list says to be ready, and to be for later."""
    found = [(str(row), row.waiting) for row in rows(client, model)]
    return {
        name: (counts.due_text(which, True), counts.due_text(which, False)) for name, which in found
    }


def test_a_queue_counts_what_waits_in_it(
    viewer: Client, add_job: AddJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counts, "CAP", 3)
    for queue, number in (("few", 2), ("many", 5)):
        for _ in range(number):
            add_job(queue=queue, priority=str(number))
    add_job(queue="few", run_at="'infinity'")
    add_job(queue="many", run_at="'infinity'", priority="1")
    add_job(queue="few", locked_at="now()", locked_by="'w'")
    assert waiting(viewer, JobQueue) == {"few": ("2", "1"), "many": ("2+", "1+")}


def test_a_task_counts_what_waits_outside_of_queues(viewer: Client, add_job: AddJob) -> None:
    for _ in range(3):
        add_job(task="a", run_at="'infinity'")
    add_job(task="a", queue="q")
    add_job(task="b", attempts="25")
    add_job(task="a")
    assert waiting(viewer, Task) == {"a": ("1", "3"), "b": ("0", "0")}
    assert [row.identifier for row in rows(viewer, Task, q="a")] == ["a"]


def test_failed_attempts_are_found_by_job_task_and_worker(
    viewer: Client, add_error: Callable[..., None]
) -> None:
    add_error(job_id=LARGE, worker_id="w", failed_at=sql.SQL("'infinity'"))
    add_error(task_identifier="other", error="x" * 30_000)
    add_error()
    assert [row.job_id for row in rows(viewer, JobError)] == [1, 1, LARGE]
    assert [row.job_id for row in rows(viewer, JobError, q=str(LARGE))] == [LARGE]
    assert [row.job_id for row in rows(viewer, JobError, q="w")] == [LARGE]
    (long,) = rows(viewer, JobError, q="other")
    page = viewer.get(reverse("admin:graphile_worker_joberror_change", args=[long.pk]))
    assert "x" * 20_000 + "…" in page.content.decode()


def test_what_is_stored_is_escaped(
    viewer: Client, add_worker: AddWorker, add_job: AddJob, add_error: Callable[..., None]
) -> None:
    add_worker(EVIL, host=EVIL)
    add_job(task=EVIL, queue=EVIL)
    add_error(task_identifier=EVIL, error=EVIL, worker_id=EVIL)
    for model in MODELS:
        (row,) = rows(viewer, model)
        name = f"admin:graphile_worker_{model._meta.model_name}_change"
        for url in (list_of(model)[0], reverse(name, args=[quote(row.pk)])):
            response = viewer.get(url)
            assert response.status_code == 200
            assert "<img src=x" not in response.content.decode()
            assert "&lt;img src=x" in response.content.decode()


def test_lists_take_as_many_queries_for_many_rows_as_for_one(
    viewer: Client,
    add_worker: AddWorker,
    add_job: AddJob,
    add_error: Callable[..., None],
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    def add(number: int) -> None:
        add_worker(f"django:{number}")
        add_job(task=f"task {number}", queue=f"queue {number}")
        add_error()

    add(0)
    taken: dict[type[Model], int] = {}
    for model in MODELS:
        rows(viewer, model)
        with CaptureQueriesContext(connection) as queries:
            rows(viewer, model)
        taken[model] = len(queries)
        assert taken[model] <= 8
    for number in range(1, 20):
        add(number)
    for model in MODELS:
        with django_assert_num_queries(taken[model]):
            assert len(rows(viewer, model)) == 20
