"""The part of a supervisor that beats for its processes and frees what dead ones had."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from psycopg import sql

from django_graphile_worker.statements import workers as statements
from django_graphile_worker.worker.connections import Link
from django_graphile_worker.worker.keeper import Keeper
from tests.waiting import eventually
from tests.worker.conftest import queue as queue
from tests.worker.tools import Queue, run

MakeKeeper = Callable[..., Keeper]


@pytest.fixture
def make(transactional_db: None, schema: str) -> Iterator[MakeKeeper]:
    made: list[Keeper] = []

    def make(heartbeat: float = 0.1) -> Keeper:
        keeper = Keeper(
            link=Link("default", "keeper"),
            schema=schema,
            heartbeat=heartbeat,
            on_end=lambda part, error: None,
        )
        keeper.freed.watch()
        made.append(keeper)
        return keeper

    yield make
    for keeper in made:
        keeper.stop()
        assert keeper.join(15)


def register(queue: Queue, *names: str) -> None:
    for name in names:
        run(
            queue.session,
            statements.register_worker(
                schema=queue.schema,
                worker_id=name,
                host="here",
                pid=1,
                concurrency=1,
                heartbeat=1,
                stale_after=60,
            ),
        )


def rows(queue: Queue) -> dict[str, Any]:
    """When each worker was last heard; `None` for the dead."""
    return dict(
        queue.session.execute(
            sql.SQL(
                "select worker_id, case when dead_at is null then last_beat_at end from {}"
            ).format(queue.name("django_workers"))
        ).fetchall()
    )


def lock(queue: Queue, worker_id: str, lane: str | None = None) -> int:
    job_id = queue.add(queue_name=lane)
    queue.set(job_id, locked_by=worker_id, locked_at="now", attempts=1)
    if lane is not None:
        queue.query(
            "update {queues} set locked_by = %s, locked_at = now() where queue_name = %s",
            [worker_id, lane],
        )
    return job_id


def test_it_beats_for_all_who_live_and_no_others(queue: Queue, make: MakeKeeper) -> None:
    register(queue, "django:a", "django:b", "django:c")
    before = rows(queue)
    keeper = make()
    keeper.add("django:a")
    keeper.add("django:b")
    keeper.add("django:c")
    keeper.remove("django:c")
    keeper.start()

    def beaten() -> None:
        now = rows(queue)
        assert now["django:a"] > before["django:a"]
        assert now["django:b"] > before["django:b"]

    eventually(beaten, 15)
    assert rows(queue)["django:c"] == before["django:c"]


def test_what_a_dead_one_had_is_freed_at_once(queue: Queue, make: MakeKeeper) -> None:
    register(queue, "django:dead", "django:alive")
    keeper = make(heartbeat=60)  # it does not wait for the next beat
    keeper.add("django:dead")
    keeper.add("django:alive")
    keeper.start()
    dead, alive = lock(queue, "django:dead", "lane"), lock(queue, "django:alive")
    keeper.bury("django:dead")
    freed = keeper.freed.wait(15)

    assert (freed.jobs, freed.queues) == (1, 1)
    job = queue.job(dead)
    assert job is not None
    assert (job["locked_by"], job["attempts"]) == (None, 1)
    assert "WorkerDied" in job["last_error"]
    assert queue.queue("lane")["locked_by"] is None
    job = queue.job(alive)
    assert job is not None
    assert job["locked_by"] == "django:alive"


def test_the_last_dead_are_freed_before_it_ends(queue: Queue, make: MakeKeeper) -> None:
    register(queue, *(f"django:{n}" for n in range(5)))
    for n in range(5):
        lock(queue, f"django:{n}")
    keeper = make(heartbeat=60)
    for n in range(5):
        keeper.bury(f"django:{n}")
    keeper.start()
    keeper.stop()

    assert keeper.join(15)
    assert queue.locks() == 0


def test_it_goes_on_where_its_connection_was_cut(queue: Queue, make: MakeKeeper) -> None:
    register(queue, "django:a")
    keeper = make()
    keeper.add("django:a")
    keeper.start()
    eventually(lambda: connected(queue), 15)
    queue.kill("keeper")
    cut = rows(queue)["django:a"]
    lock(queue, "django:a")
    keeper.bury("django:a")

    assert keeper.freed.wait(15).jobs == 1
    assert rows(queue)["django:a"] is None
    assert cut is not None


def connected(queue: Queue) -> None:
    assert queue.backends("keeper")


def test_a_database_that_is_away_does_not_keep_it_from_ending(
    queue: Queue,
    make: MakeKeeper,
    settings: Any,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("django_graphile_worker.worker.keeper.LAST_TRIES", 0.2)
    keeper = make()
    keeper._link = Link("away", "keeper")
    from django.db import connections

    monkeypatch.setitem(
        connections.settings,
        "away",
        {**connections.settings["default"], "HOST": "127.0.0.1", "PORT": 1, "NAME": "nowhere"},
    )
    keeper.bury("django:dead")
    keeper.start()
    keeper.stop()

    assert keeper.join(15)
    assert "left to other workers to free: django:dead" in caplog.text
