"""The listener: hears of new jobs, and goes on listening whatever happens to its connection."""

from __future__ import annotations

from collections.abc import Iterator
from queue import SimpleQueue

import pytest

from django_graphile_worker.worker.connections import Link
from django_graphile_worker.worker.listener import Listener
from tests.worker.tools import Queue

WITHIN = 10


@pytest.fixture
def heard() -> SimpleQueue[None]:
    return SimpleQueue()


@pytest.fixture
def listener(queue: Queue, heard: SimpleQueue[None]) -> Iterator[Listener]:
    listener = Listener(
        link=Link("default", "listener"),
        on_new_jobs=lambda: heard.put(None),
        on_end=lambda part, error: None,
    )
    listener.listening.watch()
    listener.start()
    listener.listening.wait()
    heard.get(timeout=WITHIN)  # as it begins to listen
    yield listener
    listener.stop()
    assert listener.join(WITHIN)


def test_it_hears_of_each_new_job(
    queue: Queue, listener: Listener, heard: SimpleQueue[None]
) -> None:
    for _ in range(5):
        assert heard.empty()
        queue.add()
        heard.get(timeout=WITHIN)


def test_it_listens_again_after_its_connection_was_cut(
    queue: Queue, listener: Listener, heard: SimpleQueue[None]
) -> None:
    for _ in range(3):
        queue.kill("listener")
        listener.listening.wait()
        heard.get(timeout=WITHIN)  # what came meanwhile was not heard
        queue.add()
        heard.get(timeout=WITHIN)


def test_it_is_woken_out_of_its_pause(
    queue: Queue, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pause(error: BaseException) -> float:
        listener._link.close()
        pausing.put(None)
        return 3_600

    pausing: SimpleQueue[None] = SimpleQueue()
    monkeypatch.setattr(listener._link, "pause", pause)
    queue.kill("listener")
    pausing.get(timeout=WITHIN)
    listener.stop()

    assert listener.join(WITHIN)


def test_ringing_often_does_no_harm(
    queue: Queue, listener: Listener, heard: SimpleQueue[None]
) -> None:
    for _ in range(2_000):  # more than the socket's buffer holds
        listener.wake()
    queue.add()
    heard.get(timeout=WITHIN)
