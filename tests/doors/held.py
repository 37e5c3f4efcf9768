"""Worker processes with jobs that run for as long as a test wants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import Connect
from tests.doors.programs import WITHIN, Program, Start, has_workers
from tests.waiting import eventually
from tests.worker.tools import Queue, Session

# Nobody declares anybody dead within a test by having waited: what is freed was freed at once.
PATIENT = ("--heartbeat", "1", "--stale-after", "3600")

Hold = Callable[[int], list[int]]


@pytest.fixture
def holder(connect: Connect) -> Session:
    """Holds the lock that the jobs of `hold` wait for."""
    holder = connect()
    holder.execute("select pg_advisory_lock(1)")
    return holder


@pytest.fixture
def hold(queue: Queue, holder: Session) -> Hold:
    """Add jobs that run until `release`; each with a named queue of its own. Returns their ids."""
    return lambda count: [
        queue.add("wait_for_lock", {"number": 1}, queue_name=f"lane {number}")
        for number in range(count)
    ]


@pytest.fixture
def release(holder: Session) -> Callable[[], object]:
    """Let the jobs of `hold` end."""
    return lambda: holder.execute("select pg_advisory_unlock(1)")


def are_running(queue: Queue, count: int) -> Callable[[], list[dict[str, Any]]]:
    """So many jobs wait in their tasks for the lock."""

    def running() -> list[dict[str, Any]]:
        waiting = queue.query(
            "select pid from pg_locks where locktype = 'advisory' and objid = 1 and not granted"
            " and database = (select oid from pg_database where datname = current_database())"
        )
        assert len(waiting) == count, waiting
        return [job for job in queue.jobs() if job["locked_by"] is not None]

    return running


def begin(
    start: Start, queue: Queue, *flags: str, count: int = 2
) -> tuple[Program, dict[str, int]]:
    """Start two processes of one slot each, with jobs that `hold` has made."""
    program = start("--processes", "2", "--concurrency", "1", "--prefetch", "0", *PATIENT, *flags)
    eventually(are_running(queue, count), WITHIN)
    return program, eventually(has_workers(queue, 2), WITHIN)
