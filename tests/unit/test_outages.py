"""What is told of an outage: never more than a line a second, fewer the longer it lasts."""

from __future__ import annotations

import gc
import itertools
import logging
import threading

import psycopg
import pytest

from django_graphile_worker.worker.outages import LONGEST_SILENCE, LONGEST_TEXT, Outages


class Part:
    """One that may fail."""


ONE, TWO = Part(), Part()


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def outages(clock: Clock, caplog: pytest.LogCaptureFixture) -> Outages:
    caplog.set_level(logging.DEBUG, "graphile_worker")
    return Outages(clock)


GONE = psycopg.OperationalError("connection refused\n\tIs the server running?\n")


def test_the_first_error_is_told_at_once_in_one_line(
    outages: Outages, caplog: pytest.LogCaptureFixture
) -> None:
    outages.failed(ONE, "fetcher", GONE)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage() == (
        "The fetcher will try again: connection refused Is the server running?"
    )


def test_parts_share_one_line_a_second(
    outages: Outages, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    parts = {name: Part() for name in ("fetcher", "completer", "rescuer")}
    for name, part in parts.items():
        for _ in range(5):
            outages.failed(part, name, GONE)
            clock.now += 0.05
    assert len(caplog.records) == 1
    clock.now += 1
    outages.failed(parts["fetcher"], "fetcher", GONE)
    assert caplog.records[1].getMessage().endswith("(and 14 more such errors since)")


def test_a_long_outage_is_told_less_and_less(
    outages: Outages, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    told = []
    for _ in range(600):
        before = len(caplog.records)
        outages.failed(ONE, "fetcher", GONE)
        if len(caplog.records) > before:
            told.append(round(clock.now - 1_000))
        clock.now += 1
    assert told[:7] == [0, 1, 3, 7, 15, 31, 63]
    assert max(later - earlier for earlier, later in itertools.pairwise(told)) == LONGEST_SILENCE


def test_the_end_is_told_when_all_parts_work_again(
    outages: Outages, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    outages.failed(ONE, "fetcher", GONE)
    outages.failed(TWO, "rescuer", GONE)
    clock.now += 31
    outages.works(ONE)
    assert len(caplog.records) == 1
    clock.now += 1
    outages.works(TWO)
    outages.works(TWO)
    assert [record.getMessage() for record in caplog.records[1:]] == [
        "The database can be worked with again, after 32 s."
    ]
    # The next outage is a new one: told at once, whatever the last one's silence.
    clock.now += 1
    outages.failed(ONE, "fetcher", GONE)
    assert caplog.records[-1].getMessage().startswith("The fetcher will try again")


def test_a_short_outage_has_no_end_to_be_told(
    outages: Outages, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    outages.failed(ONE, "fetcher", GONE)
    clock.now += 0.1
    outages.works(ONE)
    assert len(caplog.records) == 1


def test_short_outages_one_after_the_other_are_told_once_a_second(
    outages: Outages, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(100):
        outages.failed(ONE, "fetcher", GONE)
        clock.now += 0.05
        outages.works(ONE)
        clock.now += 0.05
    assert 8 <= len(caplog.records) <= 11


def test_a_part_that_has_ended_is_not_waited_for(
    outages: Outages, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    outages.failed(ONE, "listener", GONE)
    outages.failed(TWO, "fetcher", GONE)
    outages.gone(ONE)
    clock.now += 5
    outages.works(TWO)
    assert "can be worked with again" in caplog.records[-1].getMessage()


def test_a_part_that_was_thrown_away_is_not_waited_for(
    outages: Outages, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    part = Part()
    for _ in range(100):
        outages.failed(part, "listener", GONE)
        clock.now += 1
    del part
    gc.collect()
    lines = len(caplog.records)
    outages.failed(ONE, "fetcher", GONE)  # a new outage: at once
    assert len(caplog.records) == lines + 1


def test_an_error_may_be_long_or_say_nothing(
    outages: Outages, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    outages.failed(ONE, "fetcher", psycopg.OperationalError("x" * 10_000))
    clock.now += 100
    outages.failed(ONE, "fetcher", psycopg.OperationalError())
    assert len(caplog.records[0].getMessage()) < LONGEST_TEXT + 100
    assert "OperationalError" in caplog.records[1].getMessage()


def test_any_thread_may_tell(outages: Outages, caplog: pytest.LogCaptureFixture) -> None:
    def tell() -> None:
        who = Part()
        for _ in range(200):
            outages.failed(who, "fetcher", GONE)
            outages.works(who)

    threads = [threading.Thread(target=tell) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(caplog.records) == 1
