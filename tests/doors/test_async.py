"""Enqueueing from async code: the same calls, in the transaction that is open there."""

from __future__ import annotations

import asyncio
import gc
import inspect
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connection, connections, transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.test import AsyncClient, override_settings
from django.urls import path

import django_graphile_worker
from django_graphile_worker import (
    Task,
    acomplete_jobs,
    aenqueue,
    aenqueue_many,
    aforce_unlock_workers,
    apause_queue,
    apermanently_fail_jobs,
    aremove_job,
    areschedule_jobs,
    aresume_queue,
    asynchronous,
    client,
    task,
)
from django_graphile_worker.exceptions import InvalidJob
from django_graphile_worker.registry import registry
from tests.worker.conftest import queue as queue
from tests.worker.tools import Queue


@pytest.fixture
def letter(monkeypatch: pytest.MonkeyPatch) -> Task[..., None]:
    monkeypatch.setattr(registry, "_tasks", dict(registry._tasks))

    @task("send_letter", max_attempts=5)
    def send_letter(to: str, subject: str) -> None: ...

    return send_letter


@pytest.fixture(autouse=True)
def _tidy() -> Iterator[None]:
    """Close the connection of asgiref's thread, and end those that an error's traceback keeps."""
    yield
    asyncio.run(sync_to_async(connections.close_all)())
    gc.collect()


async def view(request: HttpRequest) -> HttpResponse:
    one = await aenqueue("send_letter", {"to": "a", "subject": "b"}, job_key="one")
    two = await aenqueue_many([("send_letter", {"to": "c", "subject": "d"}), "other"])
    return JsonResponse({"ids": [one.id, *(job.id for job in two)]})


async def atomic_view(request: HttpRequest) -> HttpResponse:
    """What async code does with a transaction: sync code that holds it, as everywhere in Django."""

    @sync_to_async
    def begin_and_raise() -> None:
        with transaction.atomic():
            client.enqueue("other")
            async_to_sync(aenqueue)("other")
            raise ValueError("undo it")

    try:
        await begin_and_raise()
    except ValueError:
        await aenqueue("another")
    return HttpResponse()


async def get(url: str) -> Any:
    return await AsyncClient().get(url)


urlpatterns = [path("enqueue", view), path("atomic", atomic_view)]


@override_settings(ROOT_URLCONF=__name__)
def test_an_async_view_enqueues(queue: Queue, letter: Task[..., None]) -> None:
    response = asyncio.run(get("/enqueue"))

    assert response.json()["ids"] == [job["id"] for job in queue.jobs()]
    assert [job["key"] for job in queue.jobs()] == ["one", None, None]
    assert [job["max_attempts"] for job in queue.jobs()] == [5, 5, 25]


@override_settings(ROOT_URLCONF=__name__)
def test_a_job_of_async_code_follows_the_transaction(queue: Queue) -> None:
    asyncio.run(get("/atomic"))
    tasks = queue.query("select identifier from {tasks} t join {jobs} j on j.task_id = t.id")

    assert [row["identifier"] for row in tasks] == ["another"]


@override_settings(ROOT_URLCONF=__name__)
def test_django_refuses_atomic_requests_around_an_async_view(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    with pytest.raises(RuntimeError, match="ATOMIC_REQUESTS with async views"):
        asyncio.run(get("/enqueue"))
    assert queue.jobs() == []


def test_in_the_callers_transaction_it_is_undone_with_it(
    queue: Queue, letter: Task[..., None]
) -> None:
    def add(*, undo: bool) -> None:
        with transaction.atomic():
            async_to_sync(aenqueue)(letter, {"to": "a", "subject": "b"})
            async_to_sync(aenqueue_many)([(letter, {"to": "a", "subject": "b"})] * 2)
            async_to_sync(letter.aenqueue)("a", "b")
            assert queue.jobs() == []
            transaction.set_rollback(undo)

    add(undo=True)
    assert queue.jobs() == []
    add(undo=False)
    assert len(queue.jobs()) == 4


def test_a_task_can_be_enqueued_in_its_short_form(queue: Queue, letter: Task[..., None]) -> None:
    job = asyncio.run(letter.using(job_key="k", priority=-3).aenqueue("a", subject="b"))

    (row,) = queue.jobs()
    assert (row["id"], row["key"], row["priority"]) == (job.id, "k", -3)
    assert row["payload"] == {"to": "a", "subject": "b"}


def test_what_is_wrong_is_raised_as_from_the_sync_call(
    queue: Queue, letter: Task[..., None]
) -> None:
    with pytest.raises(InvalidJob, match="subject"):
        asyncio.run(aenqueue(letter, {"to": "a"}))
    with pytest.raises(InvalidJob, match="missing a required argument"):
        asyncio.run(letter.aenqueue("a"))
    with pytest.raises(InvalidJob, match=r"jobs\[1\]"):
        asyncio.run(aenqueue_many(["other", (letter, {"to": "a"})]))
    assert queue.jobs() == []


def test_jobs_are_added_side_by_side(queue: Queue) -> None:
    async def add() -> list[Any]:
        return await asyncio.gather(*(aenqueue("other", {"n": n}) for n in range(20)))

    jobs = asyncio.run(add())
    assert {job.id for job in jobs} == {job["id"] for job in queue.jobs()}


def test_the_operators_verbs_are_there(queue: Queue) -> None:
    keyed = queue.add(job_key="k")
    done, failed, later = (queue.add() for _ in range(3))
    held = queue.add(queue_name="lane")
    queue.set(held, locked_by="dead", locked_at="2026-01-01")

    async def call() -> list[Any]:
        await aforce_unlock_workers(["dead"])
        return [
            await aremove_job("k"),
            await acomplete_jobs([done]),
            await apermanently_fail_jobs([failed], "why"),
            await areschedule_jobs([later], priority=7, max_attempts=3),
        ]

    async def pause() -> list[bool]:
        return [await apause_queue("lane"), await aresume_queue("lane")]

    removed, completed, ended, moved = asyncio.run(call())
    assert (removed.id, [job.id for job in completed]) == (keyed, [done])
    assert asyncio.run(pause()) == [True, True]
    assert [(job.id, job.last_error) for job in ended] == [(failed, "why")]
    assert [(job.id, job.priority, job.max_attempts) for job in moved] == [(later, 7, 3)]
    assert queue.locks() == 0
    assert {job["id"] for job in queue.jobs()} == {failed, later, held}


def test_each_call_of_the_client_has_an_async_form_of_the_same_shape() -> None:
    calls = [
        name
        for name, value in vars(client).items()
        if inspect.isfunction(value) and value.__module__ == client.__name__ and name[0] != "_"
    ]
    assert len(calls) > 5
    for name in calls:
        form = getattr(asynchronous, f"a{name}")
        assert inspect.signature(form) == inspect.signature(getattr(client, name))
        assert {name, f"a{name}"} <= set(django_graphile_worker.__all__)
