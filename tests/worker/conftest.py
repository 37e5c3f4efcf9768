"""Fixtures: the queue's tables, and pools that are stopped when the test ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from django_graphile_worker.registry import Registry
from django_graphile_worker.worker.pool import WorkerPool
from tests.conftest import Connect
from tests.worker.bench import WITHIN, Bench, MakeBench, RunJobs, job
from tests.worker.tools import Queue, Running, register

MakePool = Callable[..., WorkerPool]
StartPool = Callable[..., Running]


@pytest.fixture
def queue(connect: Connect, schema: str) -> Queue:
    return Queue(connect(application_name="queue"), schema)


@pytest.fixture
def make_pool(transactional_db: None, schema: str) -> MakePool:
    def make_pool(registry: Registry, **options: Any) -> WorkerPool:
        values: dict[str, Any] = {
            "database": "default",
            "schema": schema,
            "registry": registry,
            "concurrency": 2,
            # Longer than any test: what is seen before that was announced, not found by chance.
            "poll_interval": 60,
            "shutdown_timeout": 10,
        }
        return WorkerPool(**{**values, **options})

    return make_pool


@pytest.fixture
def start_pool(make_pool: MakePool) -> Iterator[StartPool]:
    """Start a pool and return once it listens; it is stopped when the test ends."""
    running: list[Running] = []

    def start_pool(registry: Registry, **options: Any) -> Running:
        pool = make_pool(registry, **options)
        pool.listener.listening.watch()
        pool.fetcher.fetched.watch()
        started = Running(pool)
        running.append(started)
        if pool.listener in pool.parts:
            pool.listener.listening.wait()
        return started

    yield start_pool
    for started in running:
        if started.thread.is_alive():
            started.pool.stop()
            started.pool.stop()
    for started in running:
        started.join()


@pytest.fixture
def make_bench() -> Iterator[MakeBench]:
    """Start an executor for some tasks; it is stopped when the test ends."""
    made: list[Bench] = []

    def make_bench(
        *tasks: Callable[..., Any],
        registry: Registry | None = None,
        concurrency: int = 1,
        options: dict[str, Any] | None = None,
        **named: Callable[..., Any],
    ) -> Bench:
        bench = Bench(registry or register(*tasks, **named), concurrency, **(options or {}))
        made.append(bench)
        return bench

    yield make_bench
    for bench in made:
        bench.executor.stop()
        assert bench.executor.join(WITHIN)
        assert bench.ended.get(timeout=WITHIN) is None
        assert bench.ended.empty()


@pytest.fixture(params=["sync", "async"])
def run_jobs(
    request: pytest.FixtureRequest, make_bench: MakeBench, transactional_db: None
) -> RunJobs:
    """Run functions as jobs, one after the other in one slot; return what they returned.

    They run in the slot's thread, or in the thread of an async slot's sync code.
    """

    def run_jobs(*functions: Callable[[], Any], failing: int = 0) -> list[Any]:
        results: list[Any] = []

        def sync(n: int) -> None:
            results.append(functions[n]())

        async def asynchronous(n: int) -> None:
            await sync_to_async(sync)(n)

        bench = make_bench(task=sync if request.param == "sync" else asynchronous)
        bench.feed(*[job(n, payload={"n": n}) for n in range(len(functions))])
        errors = [error for _ in functions if (error := bench.outcome().error) is not None]
        assert len(errors) == failing, errors
        return results

    return run_jobs
