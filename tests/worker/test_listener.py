"""The listener, and the bell that hears through it, whatever happens to its connection."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from queue import SimpleQueue

import pytest

from django_graphile_worker.worker.bell import Bell
from django_graphile_worker.worker.connections import Link
from django_graphile_worker.worker.listener import Listener
from tests.worker.tools import Queue

WITHIN = 10


class Hearer:
    """Waits at a bell, as the fetcher does, and tells when it was woken."""

    def __init__(self) -> None:
        self.bell = Bell()
        self.heard: SimpleQueue[None] = SimpleQueue()
        self.listener: Listener | None = None
        self._ended = False
        self._thread = threading.Thread(target=self._wait, name="hearer")
        self._thread.start()

    def _wait(self) -> None:
        self.bell.open()
        while not self._ended:
            if self.bell.wait(WITHIN) is not None:
                assert self.listener is not None
                self.listener.lost()
            self.heard.put(None)
        self.bell.close()

    def all_quiet(self) -> None:
        while not self.heard.empty():
            self.heard.get()

    def end(self) -> None:
        self._ended = True
        self.bell.ring()
        self._thread.join(WITHIN)


@pytest.fixture
def hearer() -> Iterator[Hearer]:
    hearer = Hearer()
    yield hearer
    hearer.end()


@pytest.fixture
def listener(queue: Queue, hearer: Hearer) -> Iterator[Listener]:
    listener = Listener(
        link=Link("default", "listener"),
        on_listening=hearer.bell.lend_ear,
        on_end=lambda part, error: None,
    )
    hearer.listener = listener
    listener.listening.watch()
    listener.start()
    listener.listening.wait()
    hearer.heard.get(timeout=WITHIN)  # as it begins to listen
    yield listener
    listener.stop()
    assert listener.join(WITHIN)


def until_heard(queue: Queue, hearer: Hearer) -> None:
    """Add a job and hear of it, and not of something before it."""
    hearer.all_quiet()
    queue.add()
    hearer.heard.get(timeout=WITHIN)


def test_it_hears_of_each_new_job(queue: Queue, listener: Listener, hearer: Hearer) -> None:
    for _ in range(5):
        until_heard(queue, hearer)


def test_it_listens_again_after_its_connection_was_cut(
    queue: Queue, listener: Listener, hearer: Hearer
) -> None:
    for _ in range(3):
        hearer.all_quiet()
        queue.kill("listener")
        listener.listening.wait()
        hearer.heard.get(timeout=WITHIN)  # what came meanwhile was not heard
        until_heard(queue, hearer)


def test_it_is_woken_out_of_its_pause(
    queue: Queue, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pause(error: BaseException) -> float:
        listener._link.close()
        pausing.put(None)
        return 3_600

    def fail(*args: object) -> None:
        raise ConnectionError

    pausing: SimpleQueue[None] = SimpleQueue()
    monkeypatch.setattr(listener._link, "pause", pause)
    monkeypatch.setattr(
        "django_graphile_worker.worker.listener.PASSING", (ConnectionError,), raising=True
    )
    monkeypatch.setattr(listener._link, "send", fail)
    queue.kill("listener")
    pausing.get(timeout=WITHIN)
    listener.stop()

    assert listener.join(WITHIN)


def test_ringing_often_does_no_harm(queue: Queue, listener: Listener, hearer: Hearer) -> None:
    for _ in range(2_000):  # more than the socket's buffer holds
        hearer.bell.ring()
    until_heard(queue, hearer)


def test_who_rang_before_anybody_waited_is_heard() -> None:
    bell = Bell()
    bell.ring()
    bell.open()
    bell.wait(None)
    bell.close()
    bell.ring()  # and afterwards it does no harm


def test_a_ring_ends_one_wait_only() -> None:
    bell = Bell()
    bell.open()
    bell.ring()
    bell.wait(None)
    rung = threading.Event()

    def ring() -> None:
        rung.wait(WITHIN)
        bell.ring()

    thread = threading.Thread(target=ring)
    thread.start()
    assert bell.wait(0) is None
    rung.set()
    bell.wait(None)
    thread.join(WITHIN)
    bell.close()
