"""What workers write down of what they have run: right counts, whatever happens meanwhile."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_graphile_worker.exceptions import PermanentFailure
from django_graphile_worker.jobs import LockedJob, Outcome
from django_graphile_worker.statements.base import Statement
from django_graphile_worker.statements.statistics import (
    BOUNDS,
    add_statistics,
    percentile,
    trim_statistics,
)
from django_graphile_worker.worker import rescuer
from django_graphile_worker.worker.endings import Ending, How
from django_graphile_worker.worker.tally import MOST_CELLS, Tally
from tests.waiting import eventually
from tests.worker.conftest import StartPool
from tests.worker.tools import Queue, register, run


def stored(queue: Queue) -> dict[str, tuple[int, int, int, int, int]]:
    """What is stored by task: succeeded, retried, failed, and how many waits and runs."""
    return {
        row["task_identifier"]: (
            int(row["succeeded"]),
            int(row["retried"]),
            int(row["failed"]),
            int(row["waits"]),
            int(row["runs"]),
        )
        for row in queue.query(
            "select task_identifier, sum(succeeded) as succeeded, sum(retried) as retried,"
            " sum(failed) as failed,"
            " sum((select sum(n) from unnest(waits) as n)) as waits,"
            " sum((select sum(n) from unnest(runs) as n)) as runs"
            " from {statistics} group by 1"
        )
    }


def histograms(queue: Queue) -> list[tuple[list[int], list[int]]]:
    rows = queue.query("select waits, runs from {statistics} order by minute, task_identifier")
    return [(row["waits"], row["runs"]) for row in rows]


def ending(
    task: str = "noop", *, waited: float = 0.0, ran: float = 0.0, error: str | None = None
) -> Ending:
    now = time.monotonic()
    asked = time.time() - ran - waited
    job = LockedJob(1, task, "{}", None, None, 1, 25, 0, asked, asked, 0, None, None, "me")
    how = How.COMPLETED if error is None else How.FAILED
    return Ending(Outcome(job, error, began=now - ran), how, now)


def ask(queue: Queue) -> Callable[[Statement[int]], int]:
    return lambda statement: run(queue.session, statement)


def test_successes_retries_and_failures_are_counted_sync_and_async(
    queue: Queue, start_pool: StartPool
) -> None:
    async def later() -> None:
        pass

    def bad() -> None:
        raise ValueError("<script>alert(1)</script>")

    def worst() -> None:
        raise PermanentFailure("never")

    for _ in range(7):
        queue.add("<b>ü'")
        queue.add("later")
    queue.add("bad", max_attempts=2)
    queue.add("bad", max_attempts=1)
    queue.add("worst")
    registry = register(**{"later": later, "bad": bad, "worst": worst, "<b>ü'": lambda: None})
    assert start_pool(registry, once=True).join() == 0
    assert stored(queue) == {
        "<b>ü'": (7, 0, 0, 7, 7),
        "later": (7, 0, 0, 7, 7),
        "bad": (0, 1, 1, 2, 2),
        "worst": (0, 0, 1, 1, 1),
    }


def test_a_second_attempt_counts_as_one_more(queue: Queue, start_pool: StartPool) -> None:
    begun: list[int] = []

    def second_time() -> None:
        begun.append(1)
        if len(begun) == 1:
            raise ValueError("once")

    job = queue.add("second_time")
    assert start_pool(register(second_time), once=True).join() == 0
    queue.query("update {jobs} set run_at = now() where id = %s", [job])
    assert start_pool(register(second_time), once=True).join() == 0
    assert stored(queue) == {"second_time": (1, 1, 0, 2, 2)}


def test_what_was_counted_is_written_while_the_worker_goes_on(
    queue: Queue, start_pool: StartPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rescuer, "STATISTICS_EVERY", (0.01, 0.02))
    ran = threading.Event()
    start_pool(register(noop=ran.set))
    queue.add()
    assert ran.wait(15)

    def written() -> None:
        assert stored(queue) == {"noop": (1, 0, 0, 1, 1)}

    eventually(written, 15)


def test_waits_and_runs_go_into_their_buckets(queue: Queue) -> None:
    tally = Tally(queue.schema)
    tally.add([ending(waited=3.0, ran=0.02), ending(waited=-5.0, ran=0.02)])
    tally.flush(ask(queue))
    tally.add([ending(waited=100_000_000.0, ran=0.02)])
    tally.flush(ask(queue))
    tally.flush(ask(queue))
    waits = [sum(row) for row in zip(*(pad(waits) for waits, _ in histograms(queue)), strict=True)]
    runs = [sum(row) for row in zip(*(pad(runs) for _, runs in histograms(queue)), strict=True)]
    assert [bucket for bucket, n in enumerate(waits) if n] == [0, bucket_of(3.0), len(BOUNDS)]
    assert runs[bucket_of(0.02)] == 3


def pad(histogram: list[int]) -> list[int]:
    return [*histogram, *([0] * (len(BOUNDS) + 1 - len(histogram)))]


def bucket_of(seconds: float) -> int:
    return next(n for n, bound in enumerate(BOUNDS) if seconds <= bound)


def test_of_many_some_are_timed_and_all_are_counted(queue: Queue) -> None:
    tally = Tally(queue.schema)
    tally.add([ending(ran=0.02 if n < 250 else 20.0) for n in range(500)])
    tally.flush(ask(queue))
    assert stored(queue)["noop"][:3] == (500, 0, 0)
    ((_, runs),) = histograms(queue)
    # Every eleventh of 500, each for eleven: no more than ten too many of each kind.
    assert 250 <= runs[bucket_of(0.02)] <= 260
    assert 240 <= runs[bucket_of(20.0)] <= 260


def test_what_could_not_be_written_is_kept_within_bounds_and_told_once(
    queue: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    tally = Tally(queue.schema)
    tally.add([ending(), ending(error="no")])
    lost = psycopg.OperationalError("the connection is lost")
    missing = psycopg.errors.UndefinedTable("no such table")

    def fail_with(error: Exception) -> Callable[[Any], int]:
        def fail(statement: Any) -> int:
            raise error

        return fail

    with pytest.raises(psycopg.OperationalError):
        tally.flush(fail_with(lost))
    with caplog.at_level(logging.ERROR, "graphile_worker"):
        tally.flush(fail_with(missing))
        tally.flush(fail_with(missing))
    assert len(caplog.records) == 1
    tally.add([ending()])
    tally.flush(ask(queue))
    assert stored(queue) == {"noop": (2, 1, 0, 3, 3)}

    tally.add([ending(f"task {n}") for n in range(MOST_CELLS + 10)])
    tally.flush(ask(queue))
    assert len(stored(queue)) == 1 + MOST_CELLS


def test_a_worker_whose_connection_is_cut_writes_later(queue: Queue, start_pool: StartPool) -> None:
    ran = threading.Event()
    running = start_pool(register(noop=ran.set))
    queue.add()
    assert ran.wait(15)
    queue.kill("rescuer")
    assert running.stop() == 0
    assert stored(queue) == {"noop": (1, 0, 0, 1, 1)}


def test_the_old_goes_and_so_does_what_is_too_much(queue: Queue) -> None:
    queue.query(
        "insert into {statistics}"
        " (minute, task_identifier, succeeded, retried, failed, waits, runs)"
        " select date_trunc('minute', now()) - n * interval '1 day', 'noop', 1, 0, 0,"
        " '{{}}', '{{}}'"
        " from generate_series(0, 39) as n"
    )
    month = 31 * 86_400

    def trim(**bounds: int) -> int:
        return run(queue.session, trim_statistics(schema=queue.schema, seconds=month, **bounds))

    assert trim(most=5) == 5
    assert trim() == 4
    assert trim() == 0
    assert trim(keep=9) > 0
    assert len(queue.query("select 1 from {statistics}")) == 10


def test_rows_are_locked_in_one_order_whatever_the_order_of_counting(
    queue: Queue, connect: Any
) -> None:
    forth, back = Tally(queue.schema), Tally(queue.schema)
    forth.add([ending("b"), ending("a")])
    back.add([ending("a"), ending("b")])
    forth.flush(ask(queue))
    back.flush(ask(queue))
    rows = queue.query("select task_identifier from {statistics} order by minute, id")
    assert [row["task_identifier"] for row in rows][:2] == ["a", "b"]


@given(st.lists(st.floats(0.001, 10_000), min_size=1), st.sampled_from([0.5, 0.95]))
def test_a_percentile_is_right_within_a_bucket(values: list[float], part: float) -> None:
    histogram = [0] * (len(BOUNDS) + 1)
    for value in values:
        histogram[bucket_of(value)] += 1
    exact = sorted(values)[math.ceil(part * len(values)) - 1]
    found = percentile(histogram, part)
    assert found is not None
    assert exact <= found <= exact * 1.4000001


def test_no_values_have_no_percentile_and_nothing_is_written_of_nothing(queue: Queue) -> None:
    assert percentile([], 0.5) is None
    assert percentile([0, 0], 0.5) is None
    run(queue.session, add_statistics(schema=queue.schema, cells={}))
    assert stored(queue) == {}
