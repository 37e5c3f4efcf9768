"""Signals about jobs, and the wrapper around each: what they see, and what they cannot spoil."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from django.db import connection, transaction
from django.dispatch import Signal

from django_graphile_worker import signals
from django_graphile_worker.context import TaskContext
from django_graphile_worker.exceptions import PermanentFailure
from django_graphile_worker.registry import Registry, Task
from tests.worker.bench import MakeBench, job

Listen = Callable[[Signal, Callable[..., Any]], None]

VARIABLE = contextvars.ContextVar("VARIABLE", default="clean")

JOB_SIGNALS = (signals.job_started, signals.job_succeeded, signals.job_failed)


@pytest.fixture
def listen() -> Iterator[Listen]:
    connected: list[tuple[Signal, Callable[..., Any]]] = []

    def listen(signal: Signal, receiver: Callable[..., Any]) -> None:
        signal.connect(receiver, weak=False)
        connected.append((signal, receiver))

    yield listen
    for signal, receiver in connected:
        assert signal.disconnect(receiver)


def sync_and_async(function: Callable[..., Any]) -> Registry:
    """Both forms of one task, `sync` and `asynchronous`."""
    registry = Registry()
    registry.add(Task(function, "sync"))

    async def asynchronous(*args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(0)
        return function(*args, **kwargs)

    registry.add(Task(asynchronous, "asynchronous"))
    return registry


KINDS = pytest.mark.parametrize("kind", ["sync", "asynchronous"])


@KINDS
def test_each_attempt_is_told_with_its_task_and_context(
    make_bench: MakeBench, listen: Listen, kind: str
) -> None:
    told: list[tuple[Any, ...]] = []

    def started(sender: Task[Any, Any], context: TaskContext, **kwargs: Any) -> None:
        told.append(("started", sender.identifier, context.job.id))

    def succeeded(sender: Task[Any, Any], context: TaskContext, **kwargs: Any) -> None:
        told.append(("succeeded", sender.identifier, context.job.id))

    def failed(
        sender: Any, context: TaskContext, error: Exception, will_retry: bool, **kwargs: Any
    ) -> None:
        told.append(("failed", context.job.id, repr(error), will_retry))

    listen(signals.job_started, started)
    listen(signals.job_succeeded, succeeded)
    listen(signals.job_failed, failed)

    def task(error: str = "") -> None:
        told.append(("runs",))
        if error == "permanent":
            raise PermanentFailure(error)
        if error:
            raise ValueError(error)

    bench = make_bench(registry=sync_and_async(task))
    bench.run(job(1, kind))
    assert told == [("started", kind, 1), ("runs",), ("succeeded", kind, 1)]
    for given, payload, ending in [
        (job(2, kind, {"error": "a"}), "ValueError('a')", True),
        (job(3, kind, {"error": "a"}, attempts=25), "ValueError('a')", False),
        (job(4, kind, {"error": "permanent"}), "PermanentFailure('permanent')", False),
    ]:
        told.clear()
        bench.run(given)
        assert told[-1] == ("failed", given.id, payload, ending)
        assert len(told) == 3
    told.clear()
    bench.run(job(5, "nobody"))
    assert told == [("failed", 5, "UnknownTask('nobody')", True)]


@KINDS
def test_receivers_see_the_jobs_context_variables(
    make_bench: MakeBench, listen: Listen, kind: str
) -> None:
    seen: list[str] = []
    listen(signals.job_succeeded, lambda **kwargs: seen.append(VARIABLE.get()))

    bench = make_bench(registry=sync_and_async(lambda: VARIABLE.set("the job's") and None))
    assert bench.run(job(1, kind)) is None
    assert seen == ["the job's"]


@KINDS
@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(1), KeyboardInterrupt()])
def test_a_receiver_that_raises_is_logged_and_changes_nothing(
    make_bench: MakeBench,
    listen: Listen,
    caplog: pytest.LogCaptureFixture,
    kind: str,
    error: BaseException,
) -> None:
    def receiver(**kwargs: Any) -> None:
        raise error

    for signal in JOB_SIGNALS:
        listen(signal, receiver)
    bench = make_bench(registry=sync_and_async(lambda fail=False: 1 / 0 if fail else None))
    with caplog.at_level(logging.ERROR):
        assert bench.run(job(1, kind)) is None
        text = bench.run(job(2, kind, {"fail": True}))
    assert text is not None
    assert text.startswith("ZeroDivisionError")
    told = [record for record in caplog.records if record.exc_info and record.exc_info[1] is error]
    # Before Django 6 the event loop tells of some as well.
    assert len(told) >= 4


@pytest.mark.django_db(transaction=True)
@KINDS
def test_a_receiver_may_use_the_database_whatever_the_job_has_left(
    make_bench: MakeBench, listen: Listen, kind: str
) -> None:
    places: list[tuple[str, bool]] = []

    def note(sender: Any, context: TaskContext, **kwargs: Any) -> None:
        Group.objects.create(name=f"{len(places)}")
        places.append((threading.current_thread().name, connection.in_atomic_block))
        transaction.atomic().__enter__()

    for signal in JOB_SIGNALS:
        listen(signal, note)

    def break_it() -> None:
        transaction.atomic().__enter__()
        with connection.cursor() as cursor:
            cursor.execute("select 1 / 0")

    def task(fail: bool = False) -> None:
        if fail:
            break_it()

    registry = Registry()
    registry.add(Task(task, "sync"))

    async def asynchronous(fail: bool = False) -> None:
        await sync_to_async(task)(fail)

    registry.add(Task(asynchronous, "asynchronous"))
    bench = make_bench(registry=registry)
    assert bench.run(job(1, kind)) is None
    text = bench.run(job(2, kind, {"fail": True}))

    assert text is not None
    assert text.startswith("DataError")
    assert len({name for name, _ in places}) == 1
    # What a receiver of `job_started` leaves open is the job's, and so is rolled back with it.
    assert [atomic for _, atomic in places] == [False] * 4
    bench.executor.stop()
    assert bench.executor.join(10)
    assert sorted(Group.objects.values_list("name", flat=True)) == ["0", "1", "2", "3"]


class Wrapped:
    """A wrapper that tells what it sees."""

    def __init__(self, **raising: BaseException) -> None:
        self.told: list[Any] = []
        self.raising = raising
        self.swallow = False

    @contextlib.contextmanager
    def __call__(self, context: TaskContext) -> Iterator[None]:
        self.told.append(("enter", context.job.id, VARIABLE.get()))
        VARIABLE.set("wrapped")
        if "enter" in self.raising:
            raise self.raising["enter"]
        try:
            yield
        except BaseException as error:
            self.told.append(("error", type(error).__name__))
            if not self.swallow:
                raise
        finally:
            self.told.append(("exit", VARIABLE.get()))
        if "exit" in self.raising:
            raise self.raising["exit"]


@KINDS
def test_the_wrapper_is_around_every_job_in_its_context(make_bench: MakeBench, kind: str) -> None:
    wrapper = Wrapped()
    seen: list[str] = []

    def task(fail: bool = False) -> None:
        seen.append(VARIABLE.get())
        if fail:
            raise ValueError("x")

    bench = make_bench(registry=sync_and_async(task), options={"wrapper": wrapper})
    assert bench.run(job(1, kind)) is None
    text = bench.run(job(2, kind, {"fail": True}))
    assert text is not None
    assert text.startswith("ValueError: x")
    assert seen == ["wrapped", "wrapped"]
    assert wrapper.told == [
        ("enter", 1, "clean"),
        ("exit", "wrapped"),
        ("enter", 2, "clean"),
        ("error", "ValueError"),
        ("exit", "wrapped"),
    ]


@KINDS
@pytest.mark.parametrize("where", ["enter", "exit"])
@pytest.mark.parametrize("error", [ValueError("wrapper"), SystemExit("wrapper")])
def test_an_error_of_the_wrapper_is_the_jobs_failure(
    make_bench: MakeBench, kind: str, where: str, error: BaseException
) -> None:
    ran: list[int] = []
    wrapper = Wrapped(**{where: error})
    bench = make_bench(registry=sync_and_async(lambda: ran.append(1)), options={"wrapper": wrapper})
    text = bench.run(job(1, kind))
    assert text is not None
    assert text.startswith(f"{type(error).__name__}: wrapper")
    assert ran == ([1] if where == "exit" else [])


@KINDS
def test_a_wrapper_may_swallow_an_error(make_bench: MakeBench, kind: str) -> None:
    wrapper = Wrapped()
    wrapper.swallow = True
    bench = make_bench(registry=sync_and_async(lambda: 1 / 0), options={"wrapper": wrapper})
    assert bench.run(job(1, kind)) is None
