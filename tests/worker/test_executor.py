"""The executor: slots that take jobs themselves, and what becomes of each job."""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from queue import SimpleQueue
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.urls import get_urlconf, set_urlconf
from django.utils import timezone, translation

from django_graphile_worker.jobs import LockedJob, Outcome
from django_graphile_worker.registry import Registry
from django_graphile_worker.worker.executor import Executor
from tests.worker.tools import register

WITHIN = 10

NOW = datetime.now(UTC)


def job(job_id: int, task: str = "task", payload: object = None) -> LockedJob:
    return LockedJob(
        id=job_id,
        task_identifier=task,
        payload=json.dumps({} if payload is None else payload),
        key=None,
        queue_id=None,
        attempts=1,
        max_attempts=25,
        priority=0,
        run_at=NOW,
        created_at=NOW,
        revision=0,
        flags=(),
        locked_at=NOW,
        locked_by="worker",
    )


class Bench:
    """An executor, and what it tells."""

    def __init__(self, registry: Registry, concurrency: int) -> None:
        self.outcomes: SimpleQueue[Outcome] = SimpleQueue()
        self.rooms: SimpleQueue[None] = SimpleQueue()
        self.ended: SimpleQueue[BaseException | None] = SimpleQueue()
        self.executor = Executor(
            concurrency=concurrency,
            find_task=registry.get,
            on_outcome=self.outcomes.put,
            on_room=lambda: self.rooms.put(None),
            on_end=lambda part, error: self.ended.put(error),
        )
        self.executor.start()

    def outcome(self) -> Outcome:
        return self.outcomes.get(timeout=WITHIN)

    def run(self, given: LockedJob) -> str | None:
        self.executor.feed([given])
        outcome = self.outcome()
        assert outcome.job is given
        return outcome.error


MakeBench = Callable[..., Bench]


@pytest.fixture
def make_bench() -> Iterator[MakeBench]:
    made: list[Bench] = []

    def make_bench(*tasks: Callable[..., Any], concurrency: int = 1, **named: Any) -> Bench:
        bench = Bench(register(*tasks, **named), concurrency)
        made.append(bench)
        return bench

    yield make_bench
    for bench in made:
        bench.executor.stop()
        assert bench.executor.join(WITHIN)
        while not bench.ended.empty():
            assert bench.ended.get() is None


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
        bench.executor.feed([job(n) for n in range(start, start + 8)])
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
                bench.executor.feed([job(number)])
            super().append(lock)

    bench.executor._idle = JustBefore(bench.executor._idle)
    bench.executor.feed([job(1)])

    assert [bench.outcome().job.id for _ in range(4)] == [1, 2, 3, 4]


def test_slots_that_go_idle_again_and_again_are_always_woken(make_bench: MakeBench) -> None:
    bench = make_bench(task=lambda: None, concurrency=3)
    for number in range(2_000):
        bench.executor.feed([job(number)])
        assert bench.outcome().job.id == number


def test_what_is_held_is_told_until_the_outcome_is_handed_over(make_bench: MakeBench) -> None:
    go_on = threading.Event()
    bench = make_bench(task=lambda: go_on.wait(WITHIN) and None)
    bench.executor.begun.watch()
    bench.executor.feed([job(1), job(2)])
    bench.executor.begun.wait()

    assert sorted(bench.executor.held_ids()) == [1, 2]
    go_on.set()
    bench.outcome()
    bench.outcome()


def test_room_is_announced_at_the_half_and_when_a_slot_runs_dry(make_bench: MakeBench) -> None:
    gate = threading.Semaphore(0)
    bench = make_bench(task=lambda: gate.acquire(timeout=WITHIN) and None)
    bench.executor.begun.watch()
    bench.executor.feed([job(n) for n in range(4)])

    bench.executor.begun.wait()
    assert bench.rooms.empty()
    gate.release()
    bench.executor.begun.wait()  # two of four have begun
    bench.rooms.get(timeout=WITHIN)
    gate.release(2)
    bench.executor.begun.wait()
    bench.executor.begun.wait()
    assert bench.rooms.empty()
    gate.release()
    bench.rooms.get(timeout=WITHIN)


@pytest.mark.parametrize(
    "end", [SystemExit(0), KeyboardInterrupt(), GeneratorExit(), BaseException("x")]
)
def test_whatever_a_task_raises_ends_that_job_only(
    make_bench: MakeBench, end: BaseException
) -> None:
    def task() -> None:
        raise end

    bench = make_bench(task, fine=lambda: None)
    error = bench.run(job(1))
    assert error is not None
    assert error.startswith(type(end).__name__)
    assert bench.run(job(2, "fine")) is None


def test_sys_exit_is_a_failure_also_with_0(make_bench: MakeBench) -> None:
    error = make_bench(task=lambda: sys.exit(0)).run(job(1))

    assert error is not None
    assert error.startswith("SystemExit: 0")


def test_a_failure_is_logged_with_the_jobs_ids(
    make_bench: MakeBench, caplog: pytest.LogCaptureFixture
) -> None:
    def task(secret: str) -> None:
        raise ValueError("boom")

    with caplog.at_level(logging.INFO, "graphile_worker"):
        error = make_bench(task).run(job(7, payload={"secret": "sesame"}))

    assert error is not None
    assert error.splitlines()[0] == "ValueError: boom"
    assert "in task" in error
    assert "in _attempt" not in error
    (record,) = caplog.records
    assert (record.job_id, record.task_identifier) == (7, "task")  # type: ignore[attr-defined]
    assert record.exc_info is not None
    assert "sesame" not in caplog.text


def test_a_log_handler_that_raises_does_not_end_a_slot(make_bench: MakeBench) -> None:
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise OSError("disk full")

    handler = Broken()
    logger = logging.getLogger("graphile_worker")
    logger.addHandler(handler)
    try:
        error = make_bench(task=lambda: 1 / 0).run(job(1))
    finally:
        logger.removeHandler(handler)
    assert error is not None
    assert error.startswith("ZeroDivisionError")


@pytest.mark.parametrize("payload", ["{", "", "[" * 100_000, '{"n": ' + "9" * 5_000 + "}"])
def test_a_payload_that_cannot_be_read_fails_its_job_only(
    make_bench: MakeBench, payload: str
) -> None:
    bench = make_bench(task=lambda: None)
    odd = LockedJob(
        **{name: getattr(job(1), name) for name in LockedJob._fields} | {"payload": payload}
    )

    assert bench.run(odd) is not None
    assert bench.run(job(2)) is None


def test_arguments_that_do_not_fit_fail_the_job(make_bench: MakeBench) -> None:
    def task(a: int) -> None:
        raise AssertionError("must not be called")

    error = make_bench(task).run(job(1, payload={"b": 1}))
    assert error is not None
    assert error.startswith("InvalidJob")


def test_a_task_that_is_not_known_here_fails_the_job(make_bench: MakeBench) -> None:
    error = make_bench().run(job(1, "nobody"))

    assert error is not None
    assert error.startswith("UnknownTask: nobody")


def test_each_job_starts_with_a_clean_context(make_bench: MakeBench) -> None:
    variable = contextvars.ContextVar("variable", default="clean")
    zone = timezone.get_fixed_timezone(timedelta(hours=5))
    seen: list[Any] = []

    def dirty() -> None:
        translation.activate("de")
        timezone.activate(zone)
        set_urlconf("somewhere.urls")
        variable.set("dirty")
        raise RuntimeError("also after an error")

    def look() -> None:
        seen.append(
            (
                translation.get_language(),
                timezone.get_current_timezone_name(),
                get_urlconf(),
                variable.get(),
            )
        )

    bench = make_bench(dirty, look)
    bench.run(job(1, "look"))
    bench.run(job(2, "dirty"))
    bench.run(job(3, "look"))

    assert seen[0] == seen[1]
    assert seen[0][3] == "clean"


def test_async_tasks_run_and_their_sync_code_runs_in_the_slot(make_bench: MakeBench) -> None:
    threads: dict[str, str] = {}

    async def task(name: str) -> None:
        await asyncio.sleep(0)
        threads["sync"] = await sync_to_async(lambda: threading.current_thread().name)()
        threads["name"] = name

    bench = make_bench(task)
    assert bench.run(job(1, payload={"name": "n"})) is None
    assert threads == {"sync": "graphile_worker executor", "name": "n"}


@pytest.mark.parametrize(
    "end", [ValueError("boom"), SystemExit(1), KeyboardInterrupt(), asyncio.CancelledError()]
)
def test_whatever_an_async_task_raises_ends_that_job_only(
    make_bench: MakeBench, end: BaseException
) -> None:
    async def task() -> None:
        raise end

    bench = make_bench(task, fine=lambda: None)
    error = bench.run(job(1))
    assert error is not None
    assert error.startswith(type(end).__name__)
    assert bench.run(job(2, "fine")) is None


def test_a_sync_task_may_start_a_loop_of_its_own(make_bench: MakeBench) -> None:
    async def inner() -> None:
        await asyncio.sleep(0)

    assert make_bench(task=lambda: asyncio.run(inner())).run(job(1)) is None


def test_once_stopping_nothing_begins_any_more(make_bench: MakeBench) -> None:
    go_on = threading.Event()
    bench = make_bench(task=lambda: go_on.wait(WITHIN) and None, concurrency=1)
    bench.executor.begun.watch()
    bench.executor.feed([job(1), job(2), job(3)])
    bench.executor.begun.wait()

    bench.executor.stop()
    assert [given.id for given in bench.executor.take_back()] == [2, 3]
    assert bench.executor.held_ids() == [1]
    go_on.set()
    assert bench.outcome().job.id == 1
    assert bench.executor.join(WITHIN)
    assert bench.outcomes.empty()


def test_what_comes_of_an_abandoned_job_is_dropped(make_bench: MakeBench) -> None:
    go_on = threading.Event()
    bench = make_bench(task=lambda: go_on.wait(WITHIN) and None)
    bench.executor.begun.watch()
    bench.executor.feed([job(1)])
    bench.executor.begun.wait()

    assert [given.id for given in bench.executor.abandon()] == [1]
    assert bench.executor.abandon() == []
    bench.executor.stop()
    go_on.set()
    assert bench.executor.join(WITHIN)
    assert bench.outcomes.empty()
