"""Sync and async jobs in one line: one bound, one order, and neither kind starves the other."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable

import pytest

from tests.waiting import eventually
from tests.worker.bench import WITHIN, Bench, Gate, MakeBench, job


class Count:
    """How many jobs run at a time, of both kinds together."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = 0
        self.most = 0

    def __enter__(self) -> None:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)

    def __exit__(self, *args: object) -> None:
        with self._lock:
            self._now -= 1


def pause(seconds: float) -> None:
    threading.Event().wait(seconds)


@pytest.mark.parametrize("concurrency", [1, 2, 5])
def test_both_kinds_share_one_bound_and_reach_it(make_bench: MakeBench, concurrency: int) -> None:
    count = Count()

    def sync() -> None:
        with count:
            pause(0.001)

    async def asynchronous() -> None:
        with count:
            await asyncio.sleep(0.001)

    bench = make_bench(sync=sync, asynchronous=asynchronous, concurrency=concurrency)
    kinds = random.Random(7).choices(["sync", "asynchronous"], k=400)
    for start in range(0, 400, 50):
        bench.feed(*[job(n, kinds[n]) for n in range(start, start + 50)])
    assert {bench.outcome().job.id for _ in range(400)} == set(range(400))

    assert count.most == concurrency
    assert bench.executor.held == 0


def test_one_slot_begins_jobs_of_both_kinds_in_the_order_fed(make_bench: MakeBench) -> None:
    async def asynchronous() -> None:
        await asyncio.sleep(0)

    bench = make_bench(sync=lambda: None, asynchronous=asynchronous)
    kinds = random.Random(3).choices(["sync", "asynchronous"], k=300)
    bench.feed(*[job(n, kinds[n]) for n in range(300)])

    assert [bench.begun().id for _ in range(300)] == list(range(300))
    for _ in range(300):
        assert bench.outcome().error is None


@pytest.mark.parametrize(("many", "one"), [("sync", "asynchronous"), ("asynchronous", "sync")])
def test_a_lone_job_of_one_kind_gets_its_turn_among_many_of_the_other(
    make_bench: MakeBench, many: str, one: str
) -> None:
    async def asynchronous() -> None:
        await asyncio.sleep(0.001)

    # They take longer than the interpreter needs to change from thread to thread.
    bench = make_bench(sync=lambda: pause(0.001), asynchronous=asynchronous, concurrency=2)
    bench.feed(*[job(n, one if n == 50 else many) for n in range(200)])

    begun = [bench.begun().id for _ in range(200)]
    assert abs(begun.index(50) - 50) <= 20
    for _ in range(200):
        bench.outcome()


def test_slots_of_either_kind_are_woken_after_every_rest(make_bench: MakeBench) -> None:
    async def asynchronous() -> None: ...

    bench = make_bench(sync=lambda: None, asynchronous=asynchronous, concurrency=3)
    kinds = random.Random(5).choices(["sync", "asynchronous"], k=2_000)
    for number, kind in enumerate(kinds):
        bench.feed(job(number, kind))
        assert bench.outcome().job.id == number


def all_places_are_idle(bench: Bench, count: int) -> None:
    """Wait for it: a coroutine that is about to rest keeps its place while the loop is blocked."""

    def idle() -> None:
        line = bench.executor._line
        assert len(line.sync.idle) + len(line.asynchronous.idle) == count

    eventually(idle)


def test_places_of_idle_coroutines_serve_sync_jobs_while_the_loop_is_blocked(
    make_bench: MakeBench,
) -> None:
    gate = Gate()

    async def careless() -> None:
        gate.wait()  # blocks the loop, as no async task should

    async def asynchronous() -> None: ...

    bench = make_bench(
        sync=lambda: None, careless=careless, asynchronous=asynchronous, concurrency=3
    )
    # All three places are with the coroutines now.
    bench.feed(*[job(n, "asynchronous") for n in range(30)])
    for _ in range(30):
        bench.outcome()
    all_places_are_idle(bench, 3)
    bench.feed(job(100, "careless"))
    while bench.begun().id != 100:
        pass

    bench.feed(job(101, "sync"), job(102, "sync"))
    assert {bench.outcome().job.id for _ in range(2)} == {101, 102}
    gate.let_go()
    assert bench.outcome().job.id == 100


def test_jobs_left_for_the_other_kind_are_taken_back_and_no_place_is_lost(
    make_bench: MakeBench,
) -> None:
    gate = Gate()

    async def careless() -> None:
        gate.wait()

    async def asynchronous() -> None: ...

    bench = make_bench(wait=gate.wait, careless=careless, asynchronous=asynchronous, concurrency=2)
    for number in range(20):
        bench.feed(job(1, "careless"))
        while bench.begun().id != 1:
            pass
        bench.feed(job(2, "asynchronous"), job(3, "asynchronous"))
        assert {given.id for given in bench.executor.take_back(older_than=-1)} == {2, 3}, number
        gate.let_go()
        assert bench.outcome().job.id == 1

    # Both places are still there.
    all_places_are_idle(bench, 2)
    bench.feed(job(4, "careless"), job(5, "wait"))
    assert {bench.begun().id for _ in range(2)} == {4, 5}
    gate.let_go(2)
    assert {bench.outcome().job.id for _ in range(2)} == {4, 5}


def test_stopping_ends_slots_of_both_kinds_wherever_they_wait(make_bench: MakeBench) -> None:
    async def asynchronous() -> None: ...

    steps: list[Callable[[int], list[str]]] = [
        lambda n: [],
        lambda n: ["sync"] * n,
        lambda n: ["asynchronous"] * n,
        lambda n: ["sync", "asynchronous"] * n,
    ]
    for kinds in steps:
        bench = make_bench(sync=lambda: None, asynchronous=asynchronous, concurrency=3)
        names = kinds(20)
        bench.feed(*[job(n, name) for n, name in enumerate(names)])
        bench.executor.stop()
        assert bench.executor.join(WITHIN)
        back = {given.id for given in bench.executor.take_back()}
        done = set()
        while not bench.outcomes.empty():
            done.add(bench.outcomes.get().job.id)
        assert back | done == set(range(len(names)))
        assert not back & done


def test_whatever_comes_and_is_taken_back_no_job_and_no_place_is_lost(
    make_bench: MakeBench,
) -> None:
    chance = random.Random(11)
    count = Count()

    def sync(n: int) -> None:
        with count:
            if n % 7 == 0:
                pause(0.0002)

    async def asynchronous(n: int) -> None:
        with count:
            await asyncio.sleep(0.0002 if n % 11 == 0 else 0)

    threads, coroutines = threading.Barrier(3, timeout=WITHIN), asyncio.Barrier(3)

    async def async_together() -> None:
        async with asyncio.timeout(WITHIN):
            await coroutines.wait()

    bench = make_bench(
        sync,
        asynchronous,
        async_together,
        together=lambda: threads.wait() and None,
        concurrency=3,
    )
    fed = 0
    ended: set[int] = set()
    for _ in range(300):
        size = chance.choice([1, 1, 2, 5, 40])
        share = chance.choice([0, 0.1, 0.5, 0.9, 1])
        kinds = ["asynchronous" if chance.random() < share else "sync" for _ in range(size)]
        bench.feed(*[job(fed + n, kinds[n], {"n": fed + n}) for n in range(size)])
        fed += size
        if chance.random() < 0.2:
            ended |= {given.id for given in bench.executor.take_back(older_than=-1)}
        if chance.random() < 0.1:
            ended |= {bench.outcome().job.id for _ in range(fed - len(ended))}
            assert ended == set(range(fed))
    ended |= {bench.outcome().job.id for _ in range(fed - len(ended))}

    assert ended == set(range(fed))
    assert count.most <= 3
    # All three places are there for either kind.
    bench.feed(*[job(fed + n, "together") for n in range(3)])
    assert {bench.outcome().error for _ in range(3)} == {None}
    bench.feed(*[job(fed + n, "async_together") for n in range(3)])
    assert {bench.outcome().error for _ in range(3)} == {None}
