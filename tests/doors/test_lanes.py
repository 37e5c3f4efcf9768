"""Named queues over several processes: one job at a time, in order, also when a worker dies."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.conftest import Connect
from tests.doors.programs import WITHIN, Start, has_workers, workers
from tests.doors.programs import start as start
from tests.waiting import eventually
from tests.worker.conftest import queue as queue
from tests.worker.tools import Queue, Session

TASKS = {"MODULE_OF_TASKS": "tests.doors.lane_tasks"}


@pytest.fixture
def log(connect: Connect) -> Iterator[Session]:
    session = connect()
    session.execute(
        "create table lane_log (id serial primary key, n int, lane text,"
        " began timestamptz, ended timestamptz)"
    )
    yield session
    session.execute("drop table lane_log")


def fill(queue: Queue, count: int, lanes: int, *, named: bool = True) -> None:
    start = datetime.now(UTC) - timedelta(hours=1)
    for n in range(count):
        lane = f"lane {n % lanes}"
        queue.add(
            "run_in_lane",
            {"n": n, "lane": lane},
            queue_name=lane if named else None,
            run_at=start + timedelta(seconds=n),
        )


def ran(log: Session) -> list[Any]:
    return log.execute("select lane, n, began, ended from lane_log order by began").fetchall()


def all_done(queue: Queue) -> None:
    assert len(queue.jobs()) == 0
    assert queue.locks() == 0


def overlaps(runs: list[Any], death: datetime | None = None) -> list[Any]:
    """Pairs of runs of one lane of which the second began before the first had ended.

    A run that has no end was ended by `death`.
    """
    found = []
    last: dict[str, Any] = {}
    for lane, n, began, ended in runs:
        if lane in last and began < last[lane][1]:
            found.append((lane, last[lane][0], n))
        last[lane] = (n, ended or death)
    return found


def test_twelve_jobs_of_one_queue_over_two_processes_run_one_by_one_in_order(
    queue: Queue, log: Session, start: Start
) -> None:
    for _ in range(2):
        start("--concurrency", "8", **TASKS)
    eventually(has_workers(queue, 2), WITHIN)
    fill(queue, 12, lanes=1)
    eventually(lambda: all_done(queue), WITHIN)

    runs = ran(log)
    assert overlaps(runs) == []
    assert [run[1] for run in runs] == list(range(12))


def test_without_a_queue_they_overlap(queue: Queue, log: Session, start: Start) -> None:
    """What the others look for does happen here."""
    fill(queue, 80, lanes=1, named=False)
    assert start("--once", "--concurrency", "8", **TASKS).wait()[0] == 0

    assert overlaps(ran(log)) != []


def test_two_hundred_jobs_in_three_queues_survive_a_worker_that_is_killed(
    queue: Queue, log: Session, start: Start
) -> None:
    shortened = ("--heartbeat", "0.2", "--stale-after", "1", "--poll-interval", "0.1")
    fill(queue, 200, lanes=3)
    doomed = start("--concurrency", "8", *shortened, **TASKS)
    eventually(lambda: has_run(log, 20), WITHIN)
    start("--concurrency", "8", *shortened, **TASKS)
    eventually(has_workers(queue, 2), WITHIN)
    pid = doomed.process.pid
    assert pid in workers(queue).values()
    os.kill(pid, signal.SIGKILL)
    doomed.process.wait()
    row = log.execute("select clock_timestamp()").fetchone()
    assert row is not None
    # What failed with its worker waits for its next attempt: not for as long as a test can.
    eventually(lambda: hurry(queue), WITHIN)

    runs = ran(log)
    assert overlaps(runs, row[0]) == []
    assert {run[1] for run in runs if run[3] is not None} == set(range(200))
    # Each once, but for those that the killed one had begun.
    assert len(runs) <= 200 + 3


def has_run(log: Session, count: int) -> None:
    assert len(ran(log)) >= count


def hurry(queue: Queue) -> None:
    queue.query("update {jobs} set run_at = now() where locked_at is null and attempts > 0")
    all_done(queue)
