"""Whatever a task raises is that job's failure, and of no other."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import psycopg
import pytest

from django_graphile_worker.worker.errors import LONGEST_ERROR
from tests.conftest import Connect
from tests.waiting import eventually
from tests.worker.bench import MakeBench, job

MakeTask = Callable[..., Callable[[], Any]]


def raises_sync(error: Callable[[], BaseException]) -> Callable[[], Any]:
    def task() -> None:
        raise error()

    return task


def raises_async(error: Callable[[], BaseException]) -> Callable[[], Any]:
    async def task() -> None:
        await asyncio.sleep(0)
        raise error()

    return task


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


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("wrapped", [True, False])
def test_what_a_failed_task_had_in_hand_is_free_at_once(
    make_bench: MakeBench, kind: str, wrapped: bool
) -> None:
    class Film:
        pass

    films: list[weakref.ref[Film]] = []

    def fail() -> None:
        film = Film()
        films.append(weakref.ref(film))
        raise ValueError("boom")

    async def afail() -> None:
        await asyncio.sleep(0)
        fail()

    options = {"wrapper": nullcontext} if wrapped else {}
    bench = make_bench(task=fail if kind == "sync" else afail, options=options)
    logging.disable(logging.CRITICAL)  # a record that pytest keeps has the traceback
    gc.disable()
    try:
        assert bench.run(job(1)) is not None
        eventually(lambda: _all_gone(films))
    finally:
        gc.enable()
        logging.disable(logging.NOTSET)


def _all_gone(films: list[weakref.ref[Any]]) -> None:
    assert [film() for film in films] == [None]


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
    odd = job(1, payload=None)._replace(payload=payload)

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


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("also this")


class Untraceable(Exception):
    """Its traceback is asked for where there is none to be had."""

    @property
    def __traceback__(self) -> Any:
        raise RuntimeError("no traceback")

    @__traceback__.setter
    def __traceback__(self, value: Any) -> None:
        pass


def endless() -> BaseException:
    return endless()


@pytest.fixture
def _no_logs() -> Iterator[None]:
    """Keep lone surrogates out of pytest's report, which pytest-xdist could not send."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.usefixtures("_no_logs")
@pytest.mark.parametrize("make_task", [raises_sync, raises_async])
@pytest.mark.parametrize(
    ("error", "begins"),
    [
        (lambda: ValueError("boom"), "ValueError: boom"),
        (lambda: ValueError("a\0b\ud83e"), "ValueError: a\ufffdb\ufffd"),
        (lambda: ValueError("x" * 5_000_000), "ValueError: xxx"),
        (lambda: ValueError("\N{GRINNING FACE}" * 100_000), "ValueError: \N{GRINNING FACE}"),
        (Unspeakable, "Unspeakable: (its message cannot be shown)"),
        (Untraceable, "Untraceable"),
        (lambda: SystemExit(0), "SystemExit: 0"),
        (KeyboardInterrupt, "KeyboardInterrupt"),
        (GeneratorExit, "GeneratorExit"),
        (lambda: BaseException("x"), "BaseException: x"),
        (asyncio.CancelledError, "CancelledError"),
        (MemoryError, "MemoryError"),
        (endless, "RecursionError: maximum recursion depth"),
        (
            lambda: ExceptionGroup("two", [KeyError("a"), ExceptionGroup("b", [OSError("c")])]),
            "ExceptionGroup: two (2 sub-exceptions)\n- KeyError: 'a'\n- OSError: c\n",
        ),
        (lambda: BaseExceptionGroup("g", [SystemExit(3)]), "BaseExceptionGroup: g (1 sub"),
        (lambda: StopAsyncIteration("s"), ("StopAsyncIteration: s", "RuntimeError: coroutine")),
        (lambda: StopIteration("s"), ("StopIteration: s", "RuntimeError: coroutine")),
    ],
)
def test_whatever_a_task_raises_ends_that_job_only_and_can_be_stored(
    make_bench: MakeBench,
    connect: Connect,
    make_task: MakeTask,
    error: Callable[[], BaseException],
    begins: str | tuple[str, ...],
) -> None:
    async def async_too() -> None: ...

    bench = make_bench(task=make_task(error), fine=lambda: None, async_too=async_too)
    text = bench.run(job(1))

    assert text is not None
    assert text.startswith(begins)
    assert len(text) <= LONGEST_ERROR
    assert connect().execute("select %s::text", [text]).fetchone() == (text,)
    assert bench.run(job(2, "fine")) is None
    assert bench.run(job(3, "async_too")) is None


def test_an_error_that_the_database_cannot_store_shows_the_test_above_can_fail(
    connect: Connect,
) -> None:
    for text in ("a\0b", "\ud83e"):
        with pytest.raises((psycopg.Error, UnicodeEncodeError)):
            connect().execute("select %s::text", [text])
