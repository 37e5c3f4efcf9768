"""The fetcher: when it looks, how much it takes, and that no answer is lost for good."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

import pytest

from django_graphile_worker.jobs import LockedJob
from django_graphile_worker.statements import worker as statements
from django_graphile_worker.worker.connections import Link
from django_graphile_worker.worker.fetcher import Fetcher, Load
from tests.conftest import Connect
from tests.database.test_get_jobs import ME, ago, fetch, ids
from tests.living import identity
from tests.waiting import eventually
from tests.worker.conftest import StartPool
from tests.worker.tools import Queue, register

WITHIN = 10


class Slots:
    """Slots that run nothing: what was fed is held until the test ends it."""

    def __init__(self) -> None:
        self.fed: SimpleQueue[list[LockedJob]] = SimpleQueue()
        self.held: dict[int, LockedJob] = {}
        self.finished = 0
        self.drained = threading.Event()
        self.unwritten = False

    def feed(self, jobs: list[LockedJob]) -> None:
        self.held.update((job.id, job) for job in jobs)
        self.fed.put(jobs)

    def may_fetch(self) -> int:
        return 0 if self.unwritten else 1_000

    def load(self) -> Load:
        return Load(len(self.held), self.finished)


MakeFetcher = Callable[..., Fetcher]


@pytest.fixture
def slots() -> Slots:
    return Slots()


@pytest.fixture
def make_fetcher(queue: Queue, slots: Slots) -> Iterator[MakeFetcher]:
    made: list[Fetcher] = []

    def make_fetcher(**options: Any) -> Fetcher:
        values: dict[str, Any] = {
            "link": Link("default", "fetcher"),
            "schema": queue.schema,
            "identity": identity(),
            "identifiers": ["noop"],
            "concurrency": 2,
            "prefetch": 100,
            "forbidden_flags": lambda: [],
            "tidy": lambda: None,
            "idle": lambda link: None,
            "on_deaf": lambda: None,
            "on_dead": lambda: None,
            "poll_interval": 3_600,
            "once": False,
            "load": slots.load,
            "feed": slots.feed,
            "may_fetch": slots.may_fetch,
            "settled": lambda: not slots.unwritten,
            "known_ids": lambda: list(slots.held),
            "on_drained": slots.drained.set,
            "on_end": lambda part, error: None,
        }
        fetcher = Fetcher(**{**values, **options})
        fetcher.fetched.watch()
        made.append(fetcher)
        fetcher.start()
        return fetcher

    yield make_fetcher
    for fetcher in made:
        fetcher.stop()
        assert fetcher.join(WITHIN)


def test_it_looks_at_once_when_woken_and_as_time_passes(
    queue: Queue, slots: Slots, make_fetcher: MakeFetcher
) -> None:
    fetcher = make_fetcher()
    assert fetcher.fetched.wait() == []
    first = queue.add()
    fetcher.wake()
    assert ids(slots.fed.get(timeout=WITHIN)) == [first]

    fetcher.stop()
    slots.held.clear()
    second = queue.add()
    make_fetcher(poll_interval=0.01)
    assert ids(slots.fed.get(timeout=WITHIN)) == [second]
    slots.held.clear()
    third = queue.add()  # nobody wakes it
    assert ids(slots.fed.get(timeout=WITHIN)) == [third]


def test_it_takes_no_more_than_there_are_free_slots(
    queue: Queue, slots: Slots, make_fetcher: MakeFetcher
) -> None:
    all_ids = [queue.add(run_at=ago(50 - n)) for n in range(5)]
    fetcher = make_fetcher()
    assert ids(slots.fed.get(timeout=WITHIN)) == all_ids[:2]
    assert len(fetcher.fetched.wait()) == 2

    del slots.held[all_ids[0]]
    fetcher.wake()
    assert ids(slots.fed.get(timeout=WITHIN)) == [all_ids[2]]


def test_it_takes_ahead_what_the_slots_would_end_in_a_moment(
    queue: Queue, slots: Slots, make_fetcher: MakeFetcher
) -> None:
    for n in range(300):
        queue.add(run_at=ago(400 - n))
    fetcher = make_fetcher()
    assert len(slots.fed.get(timeout=WITHIN)) == 2

    # 20,000 a second: the bound is `prefetch`, on top of the slots, in two batches.
    fetcher._pace._measured_at -= 1
    slots.finished = 20_000
    slots.held.clear()
    fetcher.wake()
    assert [len(slots.fed.get(timeout=WITHIN)) for _ in range(2)] == [51, 51]

    # 50 a second: five ahead.
    fetcher._pace._measured_at -= 1
    slots.finished += 50
    slots.held.clear()
    fetcher.wake()
    assert [len(slots.fed.get(timeout=WITHIN)) for _ in range(2)] == [3, 3]
    assert slots.fed.empty()


def test_it_takes_nothing_while_too_much_is_unwritten(
    queue: Queue, slots: Slots, make_fetcher: MakeFetcher
) -> None:
    job_id = queue.add()
    asked: SimpleQueue[bool] = SimpleQueue()

    def may_fetch() -> int:
        asked.put(True)
        return slots.may_fetch()

    slots.unwritten = True
    # Nobody wakes it, and it must not wait until the next poll either.
    make_fetcher(poll_interval=3_600, may_fetch=may_fetch)
    assert asked.get(timeout=WITHIN)
    assert asked.get(timeout=WITHIN)
    assert slots.fed.empty()
    slots.unwritten = False

    assert ids(slots.fed.get(timeout=WITHIN)) == [job_id]


def test_it_takes_no_more_than_it_may(
    queue: Queue, slots: Slots, make_fetcher: MakeFetcher
) -> None:
    first, *_ = [queue.add(run_at=ago(100 - n)) for n in range(9)]
    make_fetcher(concurrency=5, may_fetch=lambda: 1 - len(slots.held))

    assert ids(slots.fed.get(timeout=WITHIN)) == [first]


def test_it_leaves_jobs_with_a_forbidden_flag_which_may_change(
    queue: Queue, slots: Slots, make_fetcher: MakeFetcher
) -> None:
    flags = ["a"]
    flagged = queue.add(flags=["a", "b"])
    other = queue.add(flags=["b"], queue_name="lane")
    fetcher = make_fetcher(forbidden_flags=lambda: flags)
    assert ids(slots.fed.get(timeout=WITHIN)) == [other]

    flags.clear()
    slots.held.clear()
    fetcher.wake()
    assert ids(slots.fed.get(timeout=WITHIN)) == [flagged]


def test_while_the_forbidden_flags_are_not_known_nothing_is_fetched(
    queue: Queue, slots: Slots, make_fetcher: MakeFetcher, caplog: pytest.LogCaptureFixture
) -> None:
    asked: SimpleQueue[bool] = SimpleQueue()

    def flags() -> list[str]:
        asked.put(True)
        raise LookupError("boom")

    queue.add()
    fetcher = make_fetcher(forbidden_flags=flags)
    asked.get(timeout=WITHIN)
    for _ in range(20):  # as if so many jobs were announced: it is not asked, nor logged, each time
        fetcher.wake()
    asked.get(timeout=WITHIN)

    assert slots.fed.empty()
    assert 1 <= caplog.text.count("LookupError: boom") <= 2


def test_a_worker_that_is_declared_dead_takes_nothing_and_is_told(
    queue: Queue, slots: Slots, make_fetcher: MakeFetcher
) -> None:
    told: SimpleQueue[bool] = SimpleQueue()
    queue.query("update {workers} set dead_at = now() where worker_id = %s", [ME])
    queue.add()
    make_fetcher(on_dead=lambda: told.put(True))

    assert told.get(timeout=WITHIN)
    assert slots.fed.empty()


def test_without_a_name_nothing_is_fetched(
    queue: Queue, slots: Slots, make_fetcher: MakeFetcher
) -> None:
    tidied: SimpleQueue[bool] = SimpleQueue()
    name = identity(None)
    queue.add()
    fetcher = make_fetcher(identity=name, poll_interval=0.01, tidy=lambda: tidied.put(True))
    assert not fetcher.join(0.1)
    assert slots.fed.empty()
    assert tidied.empty()

    name.worker_id = ME
    fetcher.wake()
    assert slots.fed.get(timeout=WITHIN)


def test_past_a_head_of_others_jobs_it_goes_lane_by_lane(
    queue: Queue, slots: Slots, make_fetcher: MakeFetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    forms: SimpleQueue[bool] = SimpleQueue()
    get_jobs = statements.get_jobs

    def remember(**options: Any) -> Any:
        forms.put(options["by_lanes"])
        return get_jobs(**options)

    monkeypatch.setattr(statements, "get_jobs", remember)
    queue.add("foreign")
    queue.query(
        "insert into {jobs} (task_id, priority)"
        " select id, -1 from {tasks}, generate_series(1, 60000)"
    )
    job_id = queue.add()
    fetcher = make_fetcher()
    assert ids(slots.fed.get(timeout=WITHIN)) == [job_id]
    fetcher.fetched.wait()
    for _ in range(2):  # the first time it was planned, too
        slots.held.clear()
        fetcher.wake()
        assert fetcher.fetched.wait() == []

    assert [forms.get(timeout=WITHIN) for _ in range(3)] == [False, False, True]


def test_it_comes_back_after_its_connection_was_cut(
    queue: Queue, slots: Slots, make_fetcher: MakeFetcher
) -> None:
    fetcher = make_fetcher(concurrency=9)
    for _ in range(3):
        queue.kill("fetcher")
        job_id = queue.add()
        fetcher.wake()
        assert ids(slots.fed.get(timeout=WITHIN)) == [job_id]


def test_jobs_whose_fetch_was_never_answered_are_run_all_the_same(
    queue: Queue, slots: Slots, make_fetcher: MakeFetcher
) -> None:
    known = queue.add(queue_name="lane")
    fetcher = make_fetcher()
    assert ids(slots.fed.get(timeout=WITHIN)) == [known]
    assert fetcher.fetched.wait()

    # As if the server had done this for the fetcher, and the answer had been lost on its way.
    lost = queue.add(queue_name="other lane")
    (job,) = fetch(queue)
    queue.kill("fetcher")
    fetcher.wake()

    (found,) = slots.fed.get(timeout=WITHIN)
    assert found == job
    assert (found.id, found.queue_id) == (lost, queue.queue("other lane")["id"])


def test_it_looks_for_lost_answers_also_when_it_is_stopped_meanwhile(
    queue: Queue, slots: Slots, make_fetcher: MakeFetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetcher = make_fetcher()
    fetcher.fetched.wait()
    pause = fetcher._link.pause

    def stop_meanwhile(error: BaseException) -> float:
        fetcher.stop()
        return pause(error)

    monkeypatch.setattr(fetcher._link, "pause", stop_meanwhile)
    lost = queue.add()
    fetch(queue)
    queue.kill("fetcher")
    fetcher.wake()

    assert fetcher.join(WITHIN)
    assert ids(slots.fed.get(timeout=WITHIN)) == [lost]


def test_once_it_is_drained_only_when_nothing_runs_and_all_is_written(
    queue: Queue, slots: Slots, make_fetcher: MakeFetcher
) -> None:
    written = threading.Event()
    job_id = queue.add()
    fetcher = make_fetcher(once=True, poll_interval=0.01, settled=written.is_set)
    slots.fed.get(timeout=WITHIN)
    assert fetcher.fetched.wait() != []
    assert fetcher.fetched.wait() == []
    assert not slots.drained.is_set()

    del slots.held[job_id]
    for _ in range(3):
        assert fetcher.fetched.wait() == []
    assert not slots.drained.is_set()
    written.set()

    assert slots.drained.wait(WITHIN)
    assert fetcher.join(WITHIN)


def test_once_a_due_job_that_somebody_holds_for_a_moment_is_waited_for(
    queue: Queue, slots: Slots, make_fetcher: MakeFetcher, connect: Connect
) -> None:
    job_id = queue.add()
    caller = connect(autocommit=False)
    queue.query("select from {jobs} where id = %s for update", [job_id], session=caller)
    fetcher = make_fetcher(once=True)
    assert fetcher.fetched.wait() == []
    caller.rollback()

    assert ids(slots.fed.get(timeout=WITHIN)) == [job_id]


def test_once_a_due_job_that_somebody_holds_for_long_is_left(
    queue: Queue, slots: Slots, make_fetcher: MakeFetcher, connect: Connect
) -> None:
    job_id = queue.add()
    caller = connect(autocommit=False)
    queue.query("select from {jobs} where id = %s for update", [job_id], session=caller)
    make_fetcher(once=True)

    assert slots.drained.wait(WITHIN)
    assert slots.fed.empty()
    caller.rollback()


def test_the_pool_fetches_when_a_slot_is_free_again(queue: Queue, start_pool: StartPool) -> None:
    go_on = threading.Semaphore(0)
    running = start_pool(register(task=lambda: go_on.acquire(timeout=WITHIN) and None))
    running.pool.executor.begun.watch()
    # With keys, so that none is taken ahead.
    for n in range(6):
        queue.add("task", job_key=f"k{n}")
    for n in range(6):
        running.pool.executor.begun.wait()
        if n > 0:
            go_on.release()
    go_on.release()

    eventually(lambda: _gone(queue))


def _gone(queue: Queue) -> None:
    assert queue.jobs() == []
