"""How often the worker counts as asked to stop, and what a system without a signal does."""

from __future__ import annotations

import itertools
import logging
import os
import signal
import threading
from typing import Any

import pytest

from django_graphile_worker.worker.shutdown import Stops, on_signal


def stops(levels: int = 2) -> tuple[Stops, list[str]]:
    told: list[str] = []
    return Stops(lambda: told.append("stop"), levels), told


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("s", 1),
        ("ss", 2),
        ("sss", 2),
        ("1", 1),
        ("s1", 1),  # one Ctrl-C, heard of twice
        ("1s", 1),
        ("s1s2", 2),
        ("s12s", 2),
        ("2", 2),  # the first was not heard
        ("11", 1),
        ("r", 1),
        ("rs", 1),  # a file had changed before
        ("rss", 2),
        ("r1", 1),
    ],
)
def test_the_one_who_has_asked_most_often_counts(asked: str, expected: int) -> None:
    made, told = stops()
    for each in asked:
        if each == "s":
            made.signalled()
        elif each == "r":
            made.ask_to_restart()
        else:
            made.ask(int(each))
    assert len(told) == expected
    assert made.restart is (asked == "r")


def test_a_third_time_is_told_to_whom_it_concerns() -> None:
    made, told = stops(3)
    for _ in range(5):
        made.signalled()
    assert len(told) == 3


def test_many_who_ask_at_the_same_moment_ask_once() -> None:
    for _ in range(200):
        made, told = stops()
        barrier = threading.Barrier(4)

        def ask(made: Stops = made, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            made.ask(1)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(told) == 1


def test_each_signal_is_told() -> None:
    made, told = stops()
    with on_signal(made.signalled) as is_set:
        assert is_set
        for number in (signal.SIGTERM, signal.SIGINT):
            os.kill(os.getpid(), number)
    assert len(told) == 2


def test_a_signal_that_a_system_lacks_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(signal, "SIGTERM")
    before = signal.getsignal(signal.SIGINT)
    with on_signal(lambda: None) as is_set:
        assert is_set
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("error", [ValueError("not here"), OSError("not here")])
def test_a_signal_that_cannot_be_handled_is_told_and_done_without(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    real, refused = signal.signal, itertools.count()

    def refuse(number: int, handler: Any) -> Any:
        if number == signal.SIGTERM:
            next(refused)
            raise error
        return real(number, handler)

    monkeypatch.setattr(signal, "signal", refuse)
    made, told = stops()
    with caplog.at_level(logging.WARNING), on_signal(made.signalled) as is_set:
        assert is_set
        os.kill(os.getpid(), signal.SIGINT)
    assert len(told) == 1
    assert next(refused) == 1
    assert [record.getMessage() for record in caplog.records] == [
        "SIGTERM cannot be handled here (not here)."
    ]


def test_off_the_main_thread_nothing_is_set() -> None:
    seen: list[object] = []

    def run() -> None:
        before = signal.getsignal(signal.SIGTERM)
        with on_signal(lambda: None) as is_set:
            seen.extend([is_set, signal.getsignal(signal.SIGTERM) is before])

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [False, True]
