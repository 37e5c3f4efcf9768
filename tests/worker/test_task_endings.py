"""What tasks say about their jobs, as the database has it in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth.models import Group

from django_graphile_worker import aenqueue, task
from django_graphile_worker.exceptions import PermanentFailure, Retry
from django_graphile_worker.registry import Registry, Task, registry
from tests.worker.conftest import StartPool
from tests.worker.tools import Queue, register

Drain = Callable[..., None]


@pytest.fixture
def drain(start_pool: StartPool) -> Drain:
    def drain(registry: Registry, **options: Any) -> None:
        assert start_pool(registry, once=True, **options).join() == 0

    return drain


def pause_of(queue: Queue, job_id: int) -> float:
    """How far away the job's next attempt is, in seconds."""
    (row,) = queue.query(
        "select extract(epoch from run_at - now())::float as s from {jobs} where id = %s", [job_id]
    )
    return float(row["s"])


def test_only_the_failed_items_of_a_batch_remain(drain: Drain, queue: Queue) -> None:
    job_id = queue.add("send", [{"to": "a"}, {"to": "b"}, {"to": "c"}])
    drain(register(send=lambda items: [item for item in items if item["to"] != "b"]))

    (row,) = queue.jobs()
    assert row["id"] == job_id
    assert row["payload"] == [{"to": "a"}, {"to": "c"}]
    assert row["last_error"] == "BatchFailure: 2 of 3 items failed"
    assert (row["attempts"], row["locked_at"], row["is_available"]) == (1, None, True)
    assert 1 < pause_of(queue, job_id) < 4


def test_retry_permanent_failure_and_backoff_reach_the_row(drain: Drain, queue: Queue) -> None:
    def fails() -> None:
        raise ValueError("boom")

    async def asks() -> None:
        raise Retry(after=3600, reason="busy")

    def ends() -> None:
        raise PermanentFailure("gone")

    tasks = register(asks, ends, fails)
    tasks.add(Task(fails, "slowly", backoff=lambda attempt: 7200 * attempt))
    ids = {name: queue.add(name) for name in ("asks", "ends", "fails", "slowly")}
    drain(tasks)

    rows = {row["id"]: row for row in queue.jobs()}
    assert len(rows) == 4
    assert rows[ids["asks"]]["last_error"].startswith("Retry: busy")
    assert 3500 < pause_of(queue, ids["asks"]) <= 3600
    assert 7100 < pause_of(queue, ids["slowly"]) <= 7200
    assert 1 < pause_of(queue, ids["fails"]) < 4
    ended = rows[ids["ends"]]
    assert ended["attempts"] == ended["max_attempts"]
    assert not ended["is_available"]
    assert all(row["locked_at"] is None for row in rows.values())


def test_async_tasks_use_the_orm_and_enqueue_in_several_ways_at_once(
    drain: Drain, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_tasks", {})

    @task
    async def first(name: str) -> None:
        group = await Group.objects.acreate(name=name)
        assert (await Group.objects.aget(name=name)).pk == group.pk
        await sync_to_async(group.refresh_from_db)()
        await aenqueue("second", {"name": f"{name} again"})

    @task
    def second(name: str) -> None:
        Group.objects.create(name=name)

        async def look() -> bool:
            return await Group.objects.filter(name=name).aexists()

        # In a thread of asyncio's own choice, which must not keep a connection either.
        assert asyncio.run(look())
        assert async_to_sync(look)()

    for number in range(20):
        queue.add("first", {"name": f"group {number}"})
    drain(registry, concurrency=4)

    assert queue.jobs() == []
    names = {f"group {n}{more}" for n in range(20) for more in ("", " again")}
    assert set(Group.objects.values_list("name", flat=True)) == names


def test_a_running_async_task_is_cancelled_when_the_stop_takes_too_long(
    start_pool: StartPool, queue: Queue
) -> None:
    ended: list[str] = []

    async def task() -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            ended.append("tidied up")
            raise

    running = start_pool(register(task), shutdown_timeout=0.1)
    running.pool.executor.begun.watch()
    queue.add("task")
    running.pool.executor.begun.wait()
    assert running.stop() == 1

    assert ended == ["tidied up"]
    (row,) = queue.jobs()
    assert row["last_error"].startswith("WorkerStopped")
    assert queue.locks() == 0
