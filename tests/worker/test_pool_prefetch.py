"""What a pool takes ahead of its free slots, and what it does not keep for itself."""

from __future__ import annotations

import pytest

from django_graphile_worker.worker import pool as pool_module
from tests.waiting import eventually
from tests.worker.conftest import StartPool
from tests.worker.test_pool import Gate, all_done, hold_two
from tests.worker.tools import Queue, register

WITHIN = 15


def locked(queue: Queue) -> list[int]:
    return [row["id"] for row in queue.jobs() if row["locked_by"] is not None]


def test_what_has_waited_too_long_for_a_slot_is_given_back(
    queue: Queue, start_pool: StartPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "LONGEST_WAIT", 0.2)
    gate = Gate()
    running = hold_two(queue, start_pool, gate, poll_interval=0.05)
    ahead = [queue.add("task", {"n": n}) for n in range(1, 4)]

    def taken_ahead() -> None:
        assert set(ahead) <= set(locked(queue))

    eventually(taken_ahead)
    # From now on at the pace of the one that runs: nothing is taken ahead any more.
    running.pool.fetcher._pace._ahead = 0

    def given_back() -> None:
        assert not set(ahead) & set(locked(queue))

    eventually(given_back)
    rows = [queue.job(job_id) for job_id in ahead]
    assert [(row["attempts"], row["last_error"]) for row in rows if row] == [(0, None)] * 3
    assert running.pool.counts["returned"] == 3
    # An idle pool runs them now.
    other = Gate()
    other.open.set()
    start_pool(register(task=other.task), concurrency=2, poll_interval=0.05)
    eventually(lambda: check(sorted(other.began) == [1, 2, 3]), WITHIN)
    gate.open.set()
    all_done(queue)


def check(fact: bool) -> None:
    assert fact


def test_jobs_with_keys_and_queues_wait_in_the_table_where_they_can_be_replaced(
    queue: Queue, start_pool: StartPool
) -> None:
    gate = Gate()
    running = hold_two(queue, start_pool, gate, poll_interval=0.05)
    keyed = queue.add("task", {"n": 1}, job_key="k")
    queued = queue.add("task", {"n": 2}, queue_name="lane")
    plain = queue.add("task", {"n": 3}, priority=-1)

    eventually(lambda: check(plain in locked(queue)))
    running.pool.fetcher.fetched.wait()
    running.pool.fetcher.fetched.wait()
    assert not {keyed, queued} & set(locked(queue))
    assert queue.add("task", {"n": 4}, job_key="k") == keyed
    assert queue.conflicts() == []
    gate.open.set()
    all_done(queue)
    assert sorted(gate.began) == [0, 2, 3, 4]


@pytest.mark.parametrize("most", [1, 7])
def test_it_ends_after_as_many_jobs_as_it_may_run(
    queue: Queue, start_pool: StartPool, most: int
) -> None:
    ran: list[int] = []
    for n in range(10):
        queue.add("task", {"n": n})
    running = start_pool(register(task=lambda n: ran.append(n)), concurrency=3, max_jobs=most)

    assert running.join() == 0
    assert len(ran) == most
    assert len(queue.jobs()) == 10 - most
    assert queue.locks() == 0
