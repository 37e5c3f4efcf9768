"""The life cycle that every part of the worker must bear."""

from __future__ import annotations

import logging
import threading
from queue import SimpleQueue

import pytest

from django_graphile_worker.worker.connections import Link
from django_graphile_worker.worker.keeper import Keeper
from django_graphile_worker.worker.service import Moment, Service
from tests.worker.conftest import MakePool
from tests.worker.tools import register

WITHIN = 10

# What a part tells: `None` for its end, the error that a thread of it died of.
Told = SimpleQueue[BaseException | None]


class Idle(Service):
    """The simplest part there can be."""

    def work(self, number: int) -> None:
        while not self.stopping:
            self.wait(None)


@pytest.fixture
def told() -> Told:
    return SimpleQueue()


@pytest.fixture(
    params=["idle", "completer", "executor", "fetcher", "listener", "rescuer", "keeper"]
)
def part(request: pytest.FixtureRequest, make_pool: MakePool, told: Told) -> Service:
    """A part of a pool, alone: the others are never started."""
    pool = make_pool(register())
    made = {part.name: part for part in pool.parts}
    made["keeper"] = Keeper(
        link=Link("default", "keeper"),
        schema="graphile_worker",
        heartbeat=1,
        on_end=made["fetcher"]._on_end,
    )
    made["idle"] = Idle("idle", on_end=lambda part, error: None, threads=3)
    part = made[request.param]
    part._on_end = lambda part, error: told.put(error)
    return part


def test_it_starts_and_stops(part: Service, told: Told) -> None:
    part.start()
    assert told.empty()
    part.stop()

    assert part.join(WITHIN)
    assert told.get(timeout=WITHIN) is None
    assert told.empty()


def test_it_may_be_stopped_before_it_was_started(part: Service, told: Told) -> None:
    part.stop()
    part.start()

    assert part.join(WITHIN)
    assert told.empty()


def test_it_may_be_stopped_twice(part: Service, told: Told) -> None:
    part.start()
    part.stop()
    part.stop()
    assert part.join(WITHIN)
    part.stop()

    assert told.get(timeout=WITHIN) is None
    assert told.empty()


def test_it_may_be_stopped_by_many_at_once(part: Service, told: Told) -> None:
    part.start()
    threads = [threading.Thread(target=part.stop) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WITHIN)

    assert part.join(WITHIN)
    assert told.get(timeout=WITHIN) is None
    assert told.empty()


def test_it_starts_only_once(part: Service) -> None:
    part.start()
    with pytest.raises(RuntimeError, match="started before"):
        part.start()

    part.stop()
    assert part.join(WITHIN)


@pytest.mark.parametrize("error", [RuntimeError("a fault"), SystemExit(3), KeyboardInterrupt()])
def test_it_does_not_die_in_silence(
    part: Service,
    told: Told,
    error: BaseException,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work = part.work

    def die(number: int) -> None:
        if number == 0:
            raise error
        work(number)

    monkeypatch.setattr(part, "work", die)
    with caplog.at_level(logging.CRITICAL, "graphile_worker"):
        part.start()
        assert told.get(timeout=WITHIN) is error
        # Its other threads end with it, and then it says that it has ended.
        assert told.get(timeout=WITHIN) is None
        assert part.join(WITHIN)

    (record,) = caplog.records
    assert record.getMessage() == f"The {part.name} died."
    assert record.exc_info is not None
    assert record.exc_info[1] is error


def test_a_wait_is_woken_and_so_is_the_next_one() -> None:
    part = Idle("idle", on_end=lambda part, error: None)
    part.wake()
    part.wait(None)  # returns at once: it was woken before

    waiting = threading.Thread(target=part.wait, args=[None])
    waiting.start()
    part.wake()
    waiting.join(WITHIN)
    assert not waiting.is_alive()


def test_a_moment_is_kept_for_whoever_watches() -> None:
    moment = Moment()
    with pytest.raises(RuntimeError, match="watch"):
        moment.wait()
    moment.occur("unseen")
    moment.watch()
    moment.occur("seen")

    assert moment.wait() == "seen"
    with pytest.raises(TimeoutError):
        moment.wait(within=0.01)


def test_join_tells_when_it_is_not_over() -> None:
    go_on = threading.Event()

    class Stubborn(Service):
        def work(self, number: int) -> None:
            go_on.wait(WITHIN)

    part = Stubborn("stubborn", on_end=lambda part, error: None)
    part.start()
    part.stop()
    assert part.join(0.01) is False
    go_on.set()
    assert part.join(WITHIN) is True
