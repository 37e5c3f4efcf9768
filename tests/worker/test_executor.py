"""The executor: slots that take jobs themselves, and what is held meanwhile."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from django_graphile_worker.jobs import Outcome
from tests.waiting import eventually
from tests.worker.bench import WITHIN, Bench, Gate, MakeBench, job


def held_ids(bench: Bench) -> list[int]:
    return [job.id for job in bench.executor.held_jobs()]


def test_an_object_becomes_keyword_arguments_anything_else_one_argument(
    make_bench: MakeBench,
) -> None:
    seen: list[Any] = []

    def named(a: int, b: int = 2) -> None:
        seen.append((a, b))

    def single(batch: object) -> None:
        seen.append(batch)

    bench = make_bench(named, single)
    assert bench.run(job(1, "named", {"a": 1})) is None
    for number, payload in enumerate([[1, 2], 7, "text", True], 2):
        assert bench.run(job(number, "single", payload)) is None
    assert seen == [(1, 2), [1, 2], 7, "text", True]


def test_all_jobs_of_a_batch_run_and_no_more_than_slots_at_a_time(make_bench: MakeBench) -> None:
    barrier = threading.Barrier(4, timeout=WITHIN)
    mutex = threading.Lock()
    running = most = 0

    def task() -> None:
        nonlocal running, most
        with mutex:
            running += 1
            most = max(most, running)
        barrier.wait()  # holds only if all four slots were woken
        with mutex:
            running -= 1
        barrier.wait()

    bench = make_bench(task, concurrency=4)
    for start in range(0, 40, 8):
        bench.feed(*[job(n) for n in range(start, start + 8)])
        assert {bench.outcome().job.id for _ in range(8)} == set(range(start, start + 8))

    assert most == 4
    assert bench.executor.held == 0
    assert bench.executor.finished == 40


def test_no_job_is_forgotten_that_comes_just_as_a_slot_goes_idle(make_bench: MakeBench) -> None:
    bench = make_bench(task=lambda: None)
    fed = iter(range(2, 5))

    class JustBefore(deque[Any]):
        """Jobs come after the slot has found the line empty, and before it can be woken."""

        def append(self, lock: Any) -> None:
            if (number := next(fed, None)) is not None:
                bench.feed(*[job(number)])
            super().append(lock)

    side = bench.executor._line.sync
    side.idle = JustBefore(side.idle)
    bench.feed(*[job(1)])

    assert [bench.outcome().job.id for _ in range(4)] == [1, 2, 3, 4]


def test_slots_that_go_idle_again_and_again_are_always_woken(make_bench: MakeBench) -> None:
    bench = make_bench(task=lambda: None, concurrency=3)
    for number in range(2_000):
        bench.feed(*[job(number)])
        assert bench.outcome().job.id == number


def test_what_is_held_is_told_until_the_outcome_is_handed_over(make_bench: MakeBench) -> None:
    go_on = threading.Event()
    bench = make_bench(task=lambda: go_on.wait(WITHIN) and None)
    bench.feed(*[job(1), job(2)])
    bench.begun()

    assert sorted(held_ids(bench)) == [1, 2]
    go_on.set()
    bench.outcome()
    bench.outcome()


def test_room_is_announced_at_the_half_and_when_a_slot_runs_dry(make_bench: MakeBench) -> None:
    gate = threading.Semaphore(0)
    bench = make_bench(task=lambda: gate.acquire(timeout=WITHIN) and None)
    bench.feed(*[job(n) for n in range(4)])

    bench.begun()
    assert bench.rooms.empty()
    gate.release()
    bench.begun()  # two of four have begun
    bench.rooms.get(timeout=WITHIN)
    gate.release(2)
    bench.begun()
    bench.begun()
    assert bench.rooms.empty()
    gate.release()
    bench.rooms.get(timeout=WITHIN)


def test_once_stopping_nothing_begins_any_more(make_bench: MakeBench) -> None:
    go_on = threading.Event()
    bench = make_bench(task=lambda: go_on.wait(WITHIN) and None, concurrency=1)
    bench.feed(*[job(1), job(2), job(3)])
    bench.begun()

    bench.executor.stop()
    assert [given.id for given in bench.executor.take_back()] == [2, 3]
    assert held_ids(bench) == [1]
    go_on.set()
    assert bench.outcome().job.id == 1
    assert bench.executor.join(WITHIN)
    assert bench.outcomes.empty()


def test_what_comes_of_an_abandoned_job_is_dropped(make_bench: MakeBench) -> None:
    go_on = threading.Event()
    bench = make_bench(task=lambda: go_on.wait(WITHIN) and None)
    bench.feed(*[job(1)])
    bench.begun()

    assert [given.id for given in bench.executor.abandon()] == [1]
    assert bench.executor.abandon() == []
    bench.executor.stop()
    go_on.set()
    assert bench.executor.join(WITHIN)
    assert bench.outcomes.empty()


def test_a_job_may_come_again_while_its_attempt_under_a_lost_name_runs(
    make_bench: MakeBench,
) -> None:
    gate = Gate()
    bench = make_bench(task=gate.wait)
    former, again = job(1, locked_by="lost"), job(1)
    bench.feed(former)
    bench.begun()
    bench.feed(again)
    assert bench.executor.held_jobs() == [former, again]

    gate.let_go(2)
    assert bench.outcome().job is former
    assert bench.outcome().job is again
    eventually(lambda: _is(bench.executor.held, 0))


def test_an_outcome_is_told_before_the_job_leaves_those_that_are_held(
    make_bench: MakeBench,
) -> None:
    benches: list[Bench] = []
    held: list[list[int]] = []

    def on_outcome(outcome: Outcome) -> None:
        held.append(held_ids(benches[0]))

    benches.append(make_bench(task=lambda: None, options={"on_outcome": on_outcome}))
    benches[0].feed(job(1))
    eventually(lambda: _is(benches[0].executor.finished, 1))
    assert held == [[1]]


def test_what_has_waited_long_is_taken_back_and_the_slots_go_on(make_bench: MakeBench) -> None:
    gate = Gate()
    bench = make_bench(task=gate.wait)
    bench.feed(job(1), job(2))
    bench.begun()
    bench.feed(job(3))

    assert bench.executor.take_back(older_than=60) == []
    eventually(lambda: _is(bench.executor._line.waited() > 0.02, True))
    assert [given.id for given in bench.executor.take_back(older_than=0.02)] == [2, 3]
    assert bench.executor.take_back(older_than=0) == []
    assert held_ids(bench) == [1]

    # The clock starts anew for those that come later.
    bench.feed(job(4))
    assert bench.executor.take_back(older_than=5) == []
    gate.let_go(2)
    assert [bench.outcome().job.id for _ in range(2)] == [1, 4]


def _is(value: object, expected: object) -> None:
    assert value == expected
