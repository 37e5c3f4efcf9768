"""Async tasks: on one loop, each in a context of its own, with a thread for its sync code."""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connection

from tests.worker.bench import WITHIN, MakeBench, job


def test_all_async_jobs_run_on_one_loop_and_their_sync_code_in_a_thread_per_slot(
    make_bench: MakeBench,
) -> None:
    loops: set[asyncio.AbstractEventLoop] = set()
    names: list[tuple[str, str, str]] = []
    together = asyncio.Barrier(2)

    async def task() -> None:
        loops.add(asyncio.get_running_loop())
        await together.wait()
        on = threading.current_thread().name
        first, second = [
            await sync_to_async(lambda: threading.current_thread().name)() for _ in range(2)
        ]
        names.append((on, first, second))

    bench = make_bench(task, concurrency=2)
    bench.feed(job(1), job(2))
    assert [bench.outcome().error for _ in range(2)] == [None, None]

    assert len(loops) == 1
    assert {on for on, _, _ in names} == {"graphile_worker loop"}
    assert all(first == second for _, first, second in names)
    # Two jobs that run at the same time do not share a thread, and so no connection.
    assert len({first for _, first, _ in names}) == 2


def test_the_loop_is_started_by_the_first_async_job(make_bench: MakeBench) -> None:
    async def task() -> None: ...

    bench = make_bench(task, other=lambda: None)
    assert bench.run(job(1, "other")) is None
    assert bench.executor._async_slots._loop is None
    assert bench.run(job(2)) is None
    assert bench.executor._async_slots._loop is not None


async def timeouts() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await asyncio.sleep(WITHIN)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.sleep(WITHIN), 0.01)


async def groups() -> None:
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(WITHIN))
            group.create_task(_fail())
    except* ValueError as errors:
        told = errors
    assert len(told.exceptions) == 1


async def threads() -> None:
    assert await asyncio.to_thread(lambda: 7) == 7
    assert await sync_to_async(lambda: async_to_sync(_seven)())() == 7


async def streams() -> None:
    async def count() -> Any:
        for n in range(3):
            await asyncio.sleep(0)
            yield n

    assert [n async for n in count()] == [0, 1, 2]
    queue: asyncio.Queue[int] = asyncio.Queue()
    asyncio.get_running_loop().call_later(0.01, queue.put_nowait, 1)
    assert await queue.get() == 1


async def cancels_itself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.sleep(WITHIN)


async def leaves_a_wish_to_be_cancelled() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


async def _fail() -> None:
    raise ValueError


async def _seven() -> int:
    await asyncio.sleep(0)
    return 7


@pytest.mark.parametrize(
    "task",
    [timeouts, groups, threads, streams, cancels_itself, leaves_a_wish_to_be_cancelled],
)
def test_what_asyncio_offers_works_in_a_task(
    make_bench: MakeBench, task: Callable[[], Awaitable[None]]
) -> None:
    bench = make_bench(task=task, after=groups)

    assert bench.run(job(1)) is None
    assert bench.run(job(2, "after")) is None


def test_a_child_that_exits_ends_its_job_and_not_the_loop(
    make_bench: MakeBench, caplog: pytest.LogCaptureFixture
) -> None:
    async def exits() -> None:
        raise SystemExit(3)

    async def task() -> None:
        await asyncio.create_task(exits())

    bench = make_bench(task=task, after=groups)
    with caplog.at_level(logging.ERROR, "graphile_worker"):
        error = bench.run(job(1))
    assert error is not None
    assert error.startswith("SystemExit: 3")
    assert bench.run(job(2, "after")) is None


async def stops_the_loop() -> None:
    asyncio.get_running_loop().stop()


async def cancels_all_on_the_loop() -> None:
    for task in asyncio.all_tasks():
        task.cancel()


@pytest.mark.parametrize("task", [stops_the_loop, cancels_all_on_the_loop])
def test_whoever_ends_the_loop_ends_no_slot(
    make_bench: MakeBench, task: Callable[[], Awaitable[None]]
) -> None:
    bench = make_bench(task=task, after=groups)

    assert bench.run(job(1)) is None
    assert bench.run(job(2, "after")) is None  # and make_bench looks at how the executor ends


def test_a_coroutine_behind_a_sync_decorator_runs_in_the_slot(make_bench: MakeBench) -> None:
    seen: list[str] = []

    async def task() -> None:
        await asyncio.sleep(0)
        seen.append(await sync_to_async(lambda: threading.current_thread().name)())

    @functools.wraps(task)
    def decorated() -> Any:
        return task()

    assert make_bench(task=decorated).run(job(1)) is None
    assert seen == ["graphile_worker executor 1"]


def test_a_sync_task_may_run_a_loop_of_its_own(make_bench: MakeBench) -> None:
    bench = make_bench(
        one=lambda: asyncio.run(groups()), two=lambda: async_to_sync(_seven)() and None
    )
    assert bench.run(job(1, "one")) is None
    assert bench.run(job(2, "two")) is None


@pytest.mark.django_db
def test_the_orm_refuses_to_block_the_loop(make_bench: MakeBench) -> None:
    async def task() -> None:
        connection.ensure_connection()

    error = make_bench(task).run(job(1))
    assert error is not None
    assert error.startswith("SynchronousOnlyOperation")


def test_an_abandoned_job_is_cancelled_and_its_outcome_dropped(make_bench: MakeBench) -> None:
    ended: list[str] = []

    async def task() -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            await asyncio.sleep(0.01)
            ended.append("tidied up")
            raise

    bench = make_bench(task, concurrency=2)
    bench.feed(job(1), job(2), job(3))
    bench.begun(), bench.begun()
    bench.executor.stop()

    assert {given.id for given in bench.executor.abandon()} == {1, 2}
    # They have ended by now, or their next attempt would begin beside them.
    assert ended == ["tidied up"] * 2
    assert [given.id for given in bench.executor.take_back()] == [3]
    assert bench.executor.join(WITHIN)
    assert bench.outcomes.empty()


def test_what_a_job_has_left_on_the_loop_ends_with_it(make_bench: MakeBench) -> None:
    ended = threading.Event()
    kept: list[Any] = []

    async def stray() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    async def task() -> None:
        kept.append(asyncio.create_task(stray()))
        await asyncio.sleep(0)

    bench = make_bench(task)
    assert bench.run(job(1)) is None
    assert not ended.is_set()
    bench.executor.stop()
    assert bench.executor.join(WITHIN)
    assert ended.is_set()
