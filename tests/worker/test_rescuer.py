"""The rescuer: registers its worker, beats whatever happens, and frees the locks of the dead."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

import psycopg
import pytest
from django.db import connections

from django_graphile_worker.statements import workers as statements
from django_graphile_worker.worker.connections import Link
from django_graphile_worker.worker.identity import PREFIX, Identity
from django_graphile_worker.worker.rescuer import Rescuer
from tests.conftest import Connect
from tests.fresh import aliased
from tests.waiting import eventually
from tests.worker.tools import Queue, run

WITHIN = 10
NEVER = 3_600.0

MakeRescuer = Callable[..., Rescuer]


class Told:
    """What a rescuer has told the other parts."""

    def __init__(self) -> None:
        self.identity = Identity()
        self.registered: SimpleQueue[str | None] = SimpleQueue()
        self.lost: SimpleQueue[tuple[str, str | None]] = SimpleQueue()
        self.freed: SimpleQueue[None] = SimpleQueue()
        self.ended: SimpleQueue[BaseException | None] = SimpleQueue()


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def make_rescuer(queue: Queue, told: Told) -> Iterator[MakeRescuer]:
    made: list[Rescuer] = []

    def make_rescuer(alias: str = "default", **options: Any) -> Rescuer:
        values: dict[str, Any] = {"concurrency": 7, "heartbeat": 0.05, "stale_after": 30.0}
        rescuer = Rescuer(
            link=Link(alias, "rescuer"),
            schema=queue.schema,
            identity=told.identity,
            on_registered=lambda: told.registered.put(told.identity.worker_id),
            on_lost=lambda name: told.lost.put((name, told.identity.worker_id)),
            on_freed=lambda: told.freed.put(None),
            on_end=lambda part, error: told.ended.put(error),
            **{**values, **options},
        )
        made.append(rescuer)
        for moment in (rescuer.registered, rescuer.beaten, rescuer.swept):
            moment.watch()
        rescuer.start()
        return rescuer

    yield make_rescuer
    for rescuer in made:
        rescuer.stop()
        assert rescuer.join(WITHIN)
        assert told.ended.get(timeout=WITHIN) is None


def rows(queue: Queue) -> dict[str, dict[str, Any]]:
    """The workers that were not written down by hand."""
    found = queue.query("select * from {workers} where pid <> 1")
    return {row["worker_id"]: row for row in found}


def test_it_registers_before_anything_may_be_fetched(
    queue: Queue, make_rescuer: MakeRescuer, told: Told
) -> None:
    assert told.identity.worker_id is None
    rescuer = make_rescuer(heartbeat=NEVER, stale_after=2 * NEVER)
    name = rescuer.registered.wait()

    assert told.registered.get(timeout=WITHIN) == told.identity.worker_id == name
    assert name.startswith(PREFIX)
    row = rows(queue)[name]
    assert (row["host"], row["pid"]) == (socket.gethostname(), os.getpid())
    assert (row["concurrency"], row["dead_at"], row["stopping_at"]) == (7, None, None)
    assert row["heartbeat"].total_seconds() == NEVER
    assert row["stale_after"].total_seconds() == 2 * NEVER


def test_it_beats(queue: Queue, make_rescuer: MakeRescuer) -> None:
    rescuer = make_rescuer()
    name = rescuer.registered.wait()
    beats = set()
    for _ in range(3):
        rescuer.beaten.wait()
        beats.add(rows(queue)[name]["last_beat_at"])
    assert len(beats) == 3
    (row,) = rows(queue).values()
    assert row["watching_since"] <= min(beats)


def test_it_says_that_the_worker_stops_and_beats_on(
    queue: Queue, make_rescuer: MakeRescuer
) -> None:
    rescuer = make_rescuer()
    name = rescuer.registered.wait()
    rescuer.announce_stop()

    def told_so() -> None:
        assert rows(queue)[name]["stopping_at"] is not None

    eventually(told_so)
    rescuer.beaten.watch()
    rescuer.beaten.wait()


@pytest.mark.parametrize("how", ["by its heartbeat", "by another part"])
def test_declared_dead_it_goes_on_under_another_name(
    queue: Queue,
    make_rescuer: MakeRescuer,
    told: Told,
    how: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    rescuer = make_rescuer(heartbeat=0.05 if how == "by its heartbeat" else NEVER)
    name = rescuer.registered.wait()
    told.registered.get(timeout=WITHIN)
    run(queue.session, statements.rescue(schema=queue.schema, worker_ids=[name]))
    if how == "by another part":
        rescuer.report_dead()

    # While the others are told there is no name: nothing may be fetched.
    assert told.lost.get(timeout=WITHIN) == (name, None)
    new = rescuer.registered.wait()
    assert told.registered.get(timeout=WITHIN) == told.identity.worker_id == new != name
    found = rows(queue)
    assert found[name]["dead_at"] is not None
    assert found[new]["dead_at"] is None
    assert f"Worker {name} was declared dead" in caplog.text


def test_a_report_that_was_wrong_changes_nothing(
    queue: Queue, make_rescuer: MakeRescuer, told: Told
) -> None:
    rescuer = make_rescuer(heartbeat=NEVER)
    name = rescuer.registered.wait()
    rescuer.report_dead()
    assert rescuer.beaten.wait() == name
    assert told.lost.empty()


def test_it_frees_what_a_silent_worker_has_locked(
    queue: Queue, make_rescuer: MakeRescuer, told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    queue.query(
        "insert into {workers} (worker_id, host, pid, concurrency, heartbeat, stale_after)"
        " values ('django:silent', 'test', 1, 1, '0.1 s', '0.3 s')"
    )
    job_id = queue.add("task", queue_name="lane")
    queue.set(job_id, locked_by="django:silent", attempts=25)
    queue.query("update {jobs} set locked_at = now()")
    queue.query("update {queues} set locked_by = 'django:silent', locked_at = now()")
    make_rescuer()
    told.freed.get(timeout=WITHIN)

    job = queue.job(job_id)
    assert job is not None
    assert job["last_error"].startswith("WorkerDied: the worker django:silent died")
    assert queue.locks() == 0
    assert "Worker django:silent is dead." in caplog.text
    assert "Freed 1 jobs (1 of them without an attempt left) and 1 named queues" in caplog.text


def test_a_heartbeat_does_not_wait_for_a_sweep(
    queue: Queue,
    make_rescuer: MakeRescuer,
    connect: Connect,
    told: Told,
    caplog: pytest.LogCaptureFixture,
) -> None:
    rescuer = make_rescuer(stale_after=1.0)
    name = rescuer.registered.wait()
    queue.query("update {workers} set dead_at = now() where worker_id = 'somebody'")
    other = connect(autocommit=False)
    queue.query("lock {jobs} in access exclusive mode", session=other)
    # Now each sweep waits, and gives up. More beats than the worker might miss:
    rescuer.beaten.watch()
    for _ in range(6):
        assert rescuer.beaten.wait() == name
    assert "lock timeout" in caplog.text
    other.rollback()
    rescuer.swept.watch()
    rescuer.swept.wait()
    assert told.lost.empty()


def test_it_beats_on_after_its_connection_was_cut(
    queue: Queue, make_rescuer: MakeRescuer, told: Told
) -> None:
    rescuer = make_rescuer()
    name = rescuer.registered.wait()
    for _ in range(3):
        queue.kill("rescuer")
        rescuer.beaten.watch()
        assert rescuer.beaten.wait() == name
    assert told.lost.empty()


def test_it_registers_as_soon_as_the_database_is_there(
    queue: Queue, make_rescuer: MakeRescuer, told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    with aliased("away", PORT="1", **database()):
        rescuer = make_rescuer("away")

        def tried() -> None:
            assert "The rescuer will try again: " in caplog.text

        eventually(tried)
        assert told.identity.worker_id is None
        connections.settings["away"]["PORT"] = connections.settings["default"]["PORT"]
        name = rescuer.registered.wait()
        assert rows(queue).keys() == {name}
        rescuer.stop()
        assert rescuer.join(WITHIN)


def database() -> dict[str, Any]:
    return {"NAME": connections["default"].settings_dict["NAME"]}


def test_it_stops_also_while_the_database_is_away(
    make_rescuer: MakeRescuer, told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    with aliased("away", PORT="1", **database()):
        rescuer = make_rescuer("away", heartbeat=NEVER)
        eventually(lambda: _contains(caplog.text, "will try again"))
        rescuer.stop()
        assert rescuer.join(WITHIN)


def _contains(text: str, part: str) -> None:
    assert part in text


def test_stopped_it_takes_its_row_down(queue: Queue, make_rescuer: MakeRescuer) -> None:
    rescuer = make_rescuer()
    rescuer.registered.wait()
    rescuer.stop()
    assert rescuer.join(WITHIN)
    assert rows(queue) == {}


def test_it_takes_its_row_down_also_where_its_connection_was_cut(
    queue: Queue, make_rescuer: MakeRescuer
) -> None:
    rescuer = make_rescuer(heartbeat=NEVER)
    rescuer.registered.wait()
    rescuer.swept.wait()
    queue.kill("rescuer")
    rescuer.stop()
    assert rescuer.join(WITHIN)
    assert rows(queue) == {}


def test_with_something_locked_its_row_says_that_it_is_dead(
    queue: Queue, make_rescuer: MakeRescuer
) -> None:
    rescuer = make_rescuer()
    name = rescuer.registered.wait()
    job_id = queue.add("task")
    queue.set(job_id, locked_by=name, attempts=1)
    queue.query("update {jobs} set locked_at = now()")
    rescuer.stop()
    assert rescuer.join(WITHIN)
    assert rows(queue)[name]["dead_at"] is not None
    # The next sweep of another worker, whenever it was started, frees it.
    rescued = run(queue.session, statements.rescue(schema=queue.schema, by="worker"))
    assert (rescued.jobs, rescued.owners) == (1, (name,))


def test_many_failed_attempts_are_trimmed_at_once(
    queue: Queue, make_rescuer: MakeRescuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statements, "MOST_ERRORS", 10)
    trim = statements.trim_job_errors
    monkeypatch.setattr(
        statements, "trim_job_errors", lambda *, schema: trim(schema=schema, keep=5, most=10)
    )
    queue.query(
        "insert into {errors} (job_id, task_identifier, attempt, max_attempts, error)"
        " select n, 'task', 1, 1, 'boom' from generate_series(1, 42) as n"
    )
    rescuer = make_rescuer(heartbeat=0.5)
    rescuer.registered.wait()
    # One sweep after the other, without a heartbeat's pause.
    for _ in range(4):
        rescuer.swept.wait()
    assert queue.query("select count(*) as n from {errors}") == [{"n": 5}]


def test_a_fault_is_not_retried_for_ever(
    queue: Queue, told: Told, make_rescuer: MakeRescuer, caplog: pytest.LogCaptureFixture
) -> None:
    queue.schema = "nowhere"
    with caplog.at_level(logging.CRITICAL, "graphile_worker"):
        rescuer = make_rescuer()
        assert isinstance(told.ended.get(timeout=WITHIN), psycopg.errors.UndefinedTable)
        assert rescuer.join(WITHIN)
