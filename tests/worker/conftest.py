"""Fixtures: the queue's tables, and pools that are stopped when the test ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from django_graphile_worker.registry import Registry
from django_graphile_worker.worker.pool import WorkerPool
from tests.conftest import Connect
from tests.worker.tools import Queue, Running

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
        if not options.get("once"):
            pool.listener.listening.wait()
        return started

    yield start_pool
    for started in running:
        if started.thread.is_alive():
            started.pool.stop()
            started.pool.stop()
    for started in running:
        started.join()
