"""What a task may know of its attempt, and how it says what is to become of the job."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from logging.handlers import QueueHandler
from queue import SimpleQueue
from typing import Any

import pytest

from django_graphile_worker.context import TaskContext
from django_graphile_worker.exceptions import InvalidJob, PermanentFailure, Retry
from django_graphile_worker.registry import Registry, Task
from tests.worker.bench import NOW, WITHIN, Gate, MakeBench, job


def registry_of(function: Callable[..., Any], **options: Any) -> Registry:
    registry = Registry()
    registry.add(Task(function, "task", **options))
    return registry


def test_a_task_that_asks_is_given_its_context(
    make_bench: MakeBench, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[tuple[TaskContext, int]] = []

    def sync(context: TaskContext, n: int) -> None:
        seen.append((context, n))
        context.logger.info("at work", extra={"more": 1})

    async def asynchronous(context: TaskContext, n: int) -> None:
        sync(context, n)

    bench = make_bench(sync, asynchronous, options={"database": "other"})
    given = {"key": "k", "attempts": 3, "max_attempts": 3, "flags": ["f"], "priority": -1}
    for name in ("sync", "asynchronous"):
        with caplog.at_level(logging.INFO, "graphile_worker"):
            assert bench.run(job(7, name, {"n": 1}, **given)) is None
        context, n = seen.pop()
        assert n == 1
        assert (context.attempt, context.max_attempts, context.is_last_attempt) == (3, 3, True)
        assert (context.job.id, context.job.task_identifier) == (7, name)
        assert (context.job.job_key, context.job.flags) == ("k", ("f",))
        assert (context.job.priority, context.job.run_at) == (-1, NOW)
        assert context.job.worker_id == "worker"
        assert context.database == "other"
        assert context.payload == {"n": 1}
        assert context.cron is None
        assert not context.should_stop
        assert "job 7" in repr(context)
        (record,) = (r for r in caplog.records if r.getMessage() == "at work")
        assert record.__dict__["job_id"] == 7
        assert record.__dict__["task_identifier"] == name
        assert record.__dict__["attempt"] == 3
        assert record.__dict__["worker_id"] == "worker"
        assert record.__dict__["more"] == 1
        caplog.clear()


def test_cron_is_told_by_the_context_and_taken_out_of_the_arguments(make_bench: MakeBench) -> None:
    seen: list[Any] = []

    def plain(context: TaskContext, a: int) -> None:
        seen.append((context.cron, a))

    def declares(context: TaskContext, _cron: Any) -> None:
        seen.append((context.cron, _cron))

    cron = {"ts": "2026-01-01T00:00:00Z", "backfilled": False}
    bench = make_bench(plain, declares)
    assert bench.run(job(1, "plain", {"a": 1, "_cron": cron})) is None
    assert bench.run(job(2, "declares", {"_cron": cron})) is None
    assert bench.run(job(3, "plain", {"a": 1})) is None
    assert seen == [(cron, 1), (cron, cron), (None, 1)]


def test_should_stop_tells_that_the_worker_stops(make_bench: MakeBench) -> None:
    seen: list[bool] = []

    def task(context: TaskContext) -> None:
        seen.append(context.should_stop)
        bench.executor.stop()
        seen.append(context.should_stop)

    bench = make_bench(task)
    assert bench.run(job(1)) is None
    assert seen == [False, True]


def test_an_async_task_is_cancelled_when_its_timeout_is_over(make_bench: MakeBench) -> None:
    ended: list[str] = []

    async def task() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append("tidied up")

    bench = make_bench(registry=registry_of(task, timeout=0.02))
    error = bench.run(job(1))
    assert error is not None
    assert error.startswith("TimeoutError: it took longer than its timeout of 0.02 s")
    assert ended == ["tidied up"]
    assert bench.run(job(2)) is not None


def test_a_timeout_of_the_tasks_own_is_its_own_error(make_bench: MakeBench) -> None:
    async def task() -> None:
        raise TimeoutError("mine")

    error = make_bench(registry=registry_of(task, timeout=60)).run(job(1))
    assert error is not None
    assert error.startswith("TimeoutError: mine")


def test_a_sync_task_past_its_timeout_is_told_and_logged_while_it_runs(
    make_bench: MakeBench,
) -> None:
    gate = Gate()
    late: SimpleQueue[logging.LogRecord] = SimpleQueue()
    seen: list[bool] = []

    def task(context: TaskContext) -> None:
        seen.append(context.should_stop)
        gate.wait()
        seen.append(context.should_stop)

    bench = make_bench(registry=registry_of(task, timeout=0.05))
    handler = QueueHandler(late)
    logging.getLogger("graphile_worker").addHandler(handler)
    try:
        bench.feed(job(7))
        record = late.get(timeout=WITHIN)
    finally:
        logging.getLogger("graphile_worker").removeHandler(handler)
    gate.let_go()
    # It has done its work: to do it again would be worse.
    assert bench.outcome().error is None
    assert seen == [False, True]
    assert "Job 7 (task) runs for longer than its timeout of 0.05 s" in record.getMessage()
    assert record.__dict__["job_id"] == 7


def test_a_job_within_its_timeout_is_not_called_late(
    make_bench: MakeBench, caplog: pytest.LogCaptureFixture
) -> None:
    bench = make_bench(registry=registry_of(lambda: None, timeout=0.05))
    for n in range(50):
        assert bench.run(job(n)) is None
    slots = bench.executor._sync_slots
    assert not slots._deadlines
    assert caplog.records == []


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("error", "text", "retry_after", "permanent"),
    [
        (Retry(after=90, reason="busy"), "Retry: busy", 90.0, False),
        (Retry(timedelta(minutes=2)), "Retry", 120.0, False),
        (Retry(), "Retry", None, False),
        (PermanentFailure("no such page"), "PermanentFailure: no such page", None, True),
        (ValueError("x"), "ValueError: x", None, False),
    ],
)
def test_an_error_says_when_to_try_again(
    make_bench: MakeBench,
    is_async: bool,
    error: Exception,
    text: str,
    retry_after: float | None,
    permanent: bool,
) -> None:
    def sync() -> None:
        raise error

    async def asynchronous() -> None:
        raise error

    bench = make_bench(task=asynchronous if is_async else sync)
    outcome = bench.outcome_of(job(1))
    assert outcome.error is not None
    assert outcome.error.splitlines()[0] == text
    assert (outcome.retry_after, outcome.permanent) == (retry_after, permanent)


@pytest.mark.parametrize("after", [-1, float("nan"), float("inf"), "soon", True, 10**12])
def test_a_pause_out_of_bounds_is_an_error_of_its_own(make_bench: MakeBench, after: Any) -> None:
    def task() -> None:
        raise Retry(after)

    outcome = make_bench(task).outcome_of(job(1))
    assert outcome.error is not None
    assert outcome.error.startswith("InvalidJob: after must be")
    assert outcome.retry_after is None


def test_a_task_may_have_a_backoff_of_its_own(make_bench: MakeBench) -> None:
    def task() -> None:
        raise ValueError

    bench = make_bench(registry=registry_of(task, backoff=lambda attempt: 10 * attempt))
    assert bench.outcome_of(job(1, attempts=3)).retry_after == 30.0
    asked = make_bench(
        registry=registry_of(lambda: _raise(Retry(5)), backoff=lambda attempt: timedelta(hours=1))
    )
    assert asked.outcome_of(job(1)).retry_after == 5.0


def _raise(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    "backoff",
    [lambda attempt: 1 / 0, lambda attempt: "soon", lambda attempt: -1, lambda: 1, lambda a: None],
)
def test_a_backoff_that_fails_leaves_the_queues_own(
    make_bench: MakeBench, caplog: pytest.LogCaptureFixture, backoff: Any
) -> None:
    bench = make_bench(registry=registry_of(lambda: 1 / 0, backoff=backoff))
    outcome = bench.outcome_of(job(1))
    assert outcome.retry_after is None
    assert outcome.error is not None
    assert outcome.error.startswith("ZeroDivisionError")
    assert "its task's backoff failed" in caplog.text


def test_the_constructor_of_retry_refuses_at_once() -> None:
    with pytest.raises(InvalidJob, match="after must be a timedelta or a number of seconds"):
        Retry(after=-5)
