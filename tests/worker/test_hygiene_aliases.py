"""All of a project's aliases are cleaned, Django's connection pools among them."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection, connections, transaction
from django.test import override_settings

from tests.worker.bench import MakeBench, job
from tests.worker.tools import Queue

AddAlias = Callable[..., str]


@pytest.fixture
def add_alias(transactional_db: None) -> Iterator[AddAlias]:
    """Give the test database another alias, with these OPTIONS."""
    added: list[str] = []

    def add_alias(name: str, **options: Any) -> str:
        settings = {**connections["default"].settings_dict}
        settings["OPTIONS"] = {**settings["OPTIONS"], **options}
        connections.databases[name] = settings
        added.append(name)
        return name

    yield add_alias
    for name in added:
        wrapper: Any = connections[name]
        wrapper.close()
        if wrapper.settings_dict["OPTIONS"].get("pool"):
            wrapper.close_pool()
        del connections[name]
        del connections.databases[name]


def opened(alias: str) -> Any:
    """The connection of this thread; by hand, since Django's tests refuse unannounced aliases."""
    connection: Any = connections[alias]
    if connection.connection is None:
        connection.connect()
    return connection


def pid(alias: str) -> int:
    with opened(alias).cursor() as cursor:
        cursor.execute("select pg_backend_pid()")
        return int(cursor.fetchone()[0])


def test_every_alias_is_cleaned(make_bench: MakeBench, add_alias: AddAlias, queue: Queue) -> None:
    other = add_alias("other")
    seen: list[tuple[Any, ...]] = []

    def dirty() -> None:
        pid("default")
        pid(other)
        transaction.atomic(using=other).__enter__()
        pid(other)

    def look() -> None:
        seen.append((connections[other].in_atomic_block, pid(other) > 0))

    bench = make_bench(dirty, look)
    assert bench.run(job(1, "dirty")) is None
    assert bench.run(job(2, "look")) is None
    assert seen == [(False, True)]
    idle = "select count(*) as n from pg_stat_activity where state = 'idle in transaction'"
    assert queue.query(idle + " and datname = current_database()") == [{"n": 0}]


@pytest.mark.parametrize("kind", ["sync", "asynchronous"])
def test_a_pool_with_fewer_connections_than_slots_makes_it_slower_and_nothing_else(
    make_bench: MakeBench, add_alias: AddAlias, kind: str
) -> None:
    pooled = add_alias("pooled", pool={"min_size": 1, "max_size": 2, "timeout": 20})
    pids: set[int] = set()

    def sync() -> None:
        with opened(pooled).cursor() as cursor:
            cursor.execute("select pg_backend_pid(), pg_sleep(0.005)")
            pids.add(cursor.fetchone()[0])

    async def asynchronous() -> None:
        await sync_to_async(sync)()

    bench = make_bench(sync, asynchronous, concurrency=6)
    bench.feed(*[job(n, kind) for n in range(120)])
    assert [bench.outcome().error for _ in range(120)] == [None] * 120
    assert 1 <= len(pids) <= 2


def test_an_unclean_connection_does_not_go_back_to_the_pool(
    make_bench: MakeBench, add_alias: AddAlias
) -> None:
    pooled = add_alias("pooled", pool={"min_size": 1, "max_size": 1, "timeout": 20})
    seen: list[Any] = []

    def look() -> None:
        with opened(pooled).cursor() as cursor:
            cursor.execute("select pg_backend_pid(), current_setting('search_path')")
            seen.append(cursor.fetchone())

    def dirty() -> None:
        look()
        with opened(pooled).cursor() as cursor:
            cursor.execute("set search_path to pg_catalog")

    def open_transaction() -> None:
        look()
        connections[pooled].connection.execute("begin")

    bench = make_bench(look, dirty, open_transaction)
    for number, name in enumerate(["look", "look", "dirty", "look", "open_transaction", "look"]):
        assert bench.run(job(number, name)) is None
    first, second, third, fourth, fifth, sixth = seen
    assert first == second == third
    assert fourth[0] != first[0]
    assert fourth[1] == first[1]
    assert fifth == fourth
    assert sixth[0] != fifth[0]


@pytest.mark.django_db(transaction=True)
def test_a_job_with_one_query_pays_for_one_round_trip(
    make_bench: MakeBench, tmp_path: Path
) -> None:
    path = tmp_path / "trace"
    file = path.open("wb")

    def query() -> None:
        with connection.cursor() as cursor:
            cursor.execute("select 1")

    def begin_trace() -> None:
        connection.ensure_connection()
        connection.connection.pgconn.trace(file.fileno())

    def end_trace() -> None:
        connection.connection.pgconn.untrace()

    bench = make_bench(query, begin_trace, end_trace, nothing=lambda: None)
    names = ["query", "begin_trace", *["query", "nothing"] * 10, "end_trace"]
    bench.feed(*[job(n, name) for n, name in enumerate(names)])
    assert [bench.outcome().error for _ in names] == [None] * len(names)
    file.close()

    lines = path.read_text().splitlines()
    asked = [line for line in lines if line.split("\t")[1:2] == ["F"]]
    answers = [line for line in lines if "ReadyForQuery" in line]
    assert asked
    assert len(answers) == 10


def resident() -> int:
    """The memory that this process holds now, in bytes."""
    pages = Path("/proc/self/statm")
    if pages.exists():
        return int(pages.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.django_db(transaction=True)
@override_settings(DEBUG=True)
@pytest.mark.parametrize("kind", ["sync", "asynchronous"])
def test_memory_stays_flat_under_debug(make_bench: MakeBench, kind: str) -> None:
    logged: set[int] = set()

    def sync() -> None:
        for _ in range(5):
            with connection.cursor() as cursor:
                cursor.execute("select length(%s)", ["x" * 100_000])
        logged.add(len(connection.queries_log))
        assert threading.current_thread() is not threading.main_thread()

    async def asynchronous() -> None:
        await sync_to_async(sync)()

    bench = make_bench(sync, asynchronous, concurrency=4)

    def run(jobs: int) -> int:
        bench.feed(*[job(n, kind) for n in range(jobs)])
        assert [bench.outcome().error for _ in range(jobs)] == [None] * jobs
        return resident()

    run(100)
    warm = run(100)
    # Kept in the logs, their statements would take 100 MB.
    assert run(200) - warm < 30 * 2**20
    assert logged == {5}
