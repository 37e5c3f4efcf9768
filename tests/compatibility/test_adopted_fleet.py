"""After an adoption a Node worker of that version goes on, and the race is gone for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.compatibility.adopting import JOBS, make, states
from tests.compatibility.fleet import RUNS, NodePeer
from tests.fresh import SCHEMA, Fresh
from tests.waiting import eventually

pytestmark = pytest.mark.node

VERSIONS = ("0.16", "0.17", "0.18")
WITHIN = 60


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Peers:
    """Node's programs on a database of their own."""

    def __init__(self, fresh: Fresh) -> None:
        self._fresh = fresh
        self._started: list[NodePeer] = []

    def worker(self, version: str) -> NodePeer:
        settings = {"worker": {"concurrentJobs": 2}, "tasks": ["note", "batch"]}
        peer = NodePeer(self._fresh.url, SCHEMA, version, "work", settings)
        self._started.append(peer)
        return peer

    def close(self) -> None:
        for peer in self._started:
            peer.close()


@pytest.fixture
def peers(fresh: Fresh) -> Iterator[Peers]:
    peers = Peers(fresh)
    yield peers
    peers.close()


def test_a_worker_of_that_version_runs_what_waits(
    fresh: Fresh, peers: Peers, version: str, tmp_path: Path
) -> None:
    make(fresh, version, tmp_path)
    fresh.run(JOBS)
    fresh.run(RUNS)
    fresh.migrate()
    fresh.run("select {}.add_job('note', '{{\"n\": 9}}', job_key := 'after')")
    peer = peers.worker(version)

    def ran() -> None:
        rows = fresh.run("select payload::text from runs where ended is not null")
        assert len(rows) == 5, (rows, peer.said())

    # What was due: 1, 2, 3, the batch, and what was added since.
    eventually(ran, WITHIN)
    assert states(fresh) == {"ours"}
    # What is not due, has failed, waits for its retry, or is held elsewhere.
    eventually(lambda: _left(fresh, ["4", "6", "7", "8"]), WITHIN)
    peer.stop()


def _left(fresh: Fresh, numbers: list[str]) -> None:
    rows = fresh.run("select payload->>'n' from {}._private_jobs order by 1")
    assert [number for (number,) in rows] == numbers


class Race:
    """Callers ask for one key while a worker takes it and ends it, again and again.

    The worker is plain SQL: it takes the key's holder as any worker does. Where a request is
    dropped, no row comes back.
    """

    def __init__(self, fresh: Fresh) -> None:
        self._fresh = fresh
        self._over = threading.Event()
        self.calls = 0
        self.missing = 0

    def run(self, seconds: float, *, calls: int = 0) -> None:
        """Until a request was dropped, or so many seconds and calls were not enough."""
        threads = [threading.Thread(target=self._take), *(self._asker() for _ in range(3))]
        for thread in threads:
            thread.start()
        end = time.monotonic() + seconds
        while not self.missing and (time.monotonic() < end or self.calls < calls):
            time.sleep(0.01)
        self._over.set()
        for thread in threads:
            thread.join(WITHIN)

    def _asker(self) -> threading.Thread:
        return threading.Thread(target=self._ask)

    def _ask(self) -> None:
        text = (
            f"select id from {SCHEMA}.add_jobs(array[row('note', '[1]', null, null, null, 'k',"
            f" null, null)::{SCHEMA}.job_spec])"
        )
        with psycopg.connect(self._fresh.address, autocommit=True) as session:
            while not self._over.is_set():
                rows = session.execute(text.encode()).fetchall()
                self.calls += 1
                self.missing += len(rows) != 1

    def _take(self) -> None:
        take = (
            f"update {SCHEMA}._private_jobs set locked_at = now(), locked_by = 'w',"
            " attempts = attempts + 1 where is_available and key = 'k'"
        )
        end = f"delete from {SCHEMA}._private_jobs where locked_by = 'w'"
        with psycopg.connect(self._fresh.address, autocommit=True) as session:
            while not self._over.is_set():
                session.execute(take.encode())
                session.execute(end.encode())


def test_the_race_is_there_before_and_gone_after(
    fresh: Fresh, version: str, tmp_path: Path
) -> None:
    make(fresh, version, tmp_path)
    before = Race(fresh)
    before.run(WITHIN)
    assert before.missing > 0, before.calls

    fresh.migrate()
    after = Race(fresh)
    # As long as it took before, and twice as many calls.
    after.run(2, calls=2 * before.calls)
    assert (after.missing, after.calls > before.calls) == (0, True)
