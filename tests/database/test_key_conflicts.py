"""Every superseding is written down, in a record that bounds itself and costs others nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.database.stage import Stage, ago, spec
from tests.database.ways import Way
from tests.waiting import eventually

BOUND = 100_000

COLUMNS = (
    "key, mode, superseded_job_id, superseded_task, superseded_state, superseded_attempts,"
    " superseded_max_attempts, superseded_locked_by, superseded_locked_at, successor_job_id,"
    " successor_task, outcome, finished_at"
)


@pytest.fixture(autouse=True)
def small_again(stage: Stage) -> Iterator[None]:
    """Leave no table behind that is full of dead rows."""
    yield
    stage.query("truncate {conflicts}")


def conflicts(stage: Stage) -> list[Any]:
    return stage.query(f"select {COLUMNS} from {{conflicts}} order by id")


def test_a_running_holder_is_written_down_as_it_was(stage: Stage, way: Way) -> None:
    since = ago(minutes=5).replace(microsecond=0)
    old = stage.make_job(
        "k", [1], task="old", attempts=2, max_attempts=7, locked_at=since, locked_by="worker"
    )
    (before,) = stage.query("select now() as now")
    new = way.request(stage, None, "k", 2, identifier="new")

    mode = "preserve_run_at" if way.preserve_run_at else "replace"
    assert conflicts(stage) == [
        ("k", mode, old, "old", "locked", 2, 7, "worker", since, new.id, "new", None, None)
    ]
    (row,) = stage.query("select recorded_at from {conflicts}")
    assert before.now <= row.recorded_at


def test_a_holder_that_has_failed_for_good_is_written_down_too(stage: Stage, way: Way) -> None:
    old = stage.make_job("k", [1], attempts=3, max_attempts=3, last_error="boom")
    new = way.request(stage, None, "k", 2)

    mode = "preserve_run_at" if way.preserve_run_at else "replace"
    assert conflicts(stage) == [
        ("k", mode, old, "task", "failed", 3, 3, None, None, new.id, "task", None, None)
    ]


def test_a_stale_lock_is_a_lock(stage: Stage) -> None:
    old = stage.make_job("k", [1], locked_at=ago(hours=5), locked_by="dead", attempts=1)
    new = stage.add_job(payload=[2], job_key="k")
    assert new.id != old
    assert [row.superseded_state for row in conflicts(stage)] == ["locked"]


def test_each_of_many_supersedings_has_a_row(stage: Stage) -> None:
    locked = {"locked_at": "now", "locked_by": "worker", "attempts": 1}
    old = {key: stage.make_job(key, **locked) for key in "abc"}
    stage.make_job("free")
    specs = [spec(job_key=key) for key in ["c", "free", "a", "new", "b", "a"]]
    rows = {row.key: row.id for row in stage.add_jobs(None, specs)}

    recorded = {row.key: row for row in conflicts(stage)}
    assert recorded.keys() == old.keys()
    assert {key: row.superseded_job_id for key, row in recorded.items()} == old
    assert {key: row.successor_job_id for key, row in recorded.items()} == {
        key: rows[key] for key in old
    }


@pytest.mark.parametrize("before", [None, "free"])
def test_nothing_is_written_down_where_nothing_is_superseded(
    stage: Stage, way: Way, before: str | None
) -> None:
    if before:
        stage.make_job("k", [1])
    way.request(stage, None, "k", 2)
    stage.add_job(job_key="k", job_key_mode="unsafe_dedupe")
    stage.query("update {jobs} set locked_at = now(), locked_by = 'worker', attempts = 1")
    stage.add_job(job_key="k", job_key_mode="unsafe_dedupe")
    stage.query("select * from {remove_job}('k')")
    assert conflicts(stage) == []


def test_what_is_rolled_back_was_not_superseded(stage: Stage, way: Way) -> None:
    stage.make_job("k", [1], locked_at="now", locked_by="worker", attempts=1)
    caller = stage.session()
    way.request(stage, caller, "k", 2)
    caller.rollback()
    assert conflicts(stage) == []


def calls(stage: Stage) -> dict[str, int]:
    """How often each of the queue's functions has been called, as the statistics have it."""
    rows = stage.query(
        "select funcname, calls from pg_stat_user_functions where schemaname = %s", [stage.schema]
    )
    return {row.funcname: row.calls for row in rows}


def test_a_call_without_conflict_does_not_call_the_recorder(stage: Stage) -> None:
    stage.make_name("tasks", "identifier", "task")
    before = calls(stage)

    def called(name: str) -> int:
        return calls(stage).get(name, 0) - before.get(name, 0)

    def wait_for(name: str, count: int) -> None:
        def seen() -> None:
            assert called(name) == count

        eventually(seen)

    session = stage.connect(options="-c track_functions=all")
    for key in ["a", "a", "b"]:
        stage.add_job(session, job_key=key)
        stage.add_jobs(session, [spec(job_key=key), spec(job_key="c"), spec()])
    session.close()  # which is when a session tells its statistics
    wait_for("add_job", 3)
    wait_for("add_jobs", 3)
    assert called("django_record_key_conflicts") == 0

    stage.query("update {jobs} set locked_at = now(), locked_by = 'worker', attempts = 1")
    session = stage.connect(options="-c track_functions=all")
    stage.add_jobs(session, [spec(job_key=key) for key in "abc"])
    session.close()
    wait_for("add_jobs", 4)
    assert called("django_record_key_conflicts") == 1


def fill(stage: Stage, count: int) -> int:
    """Fill the record with jobs that never were; returns the id of its newest row."""
    (row,) = stage.query(
        "with filled as (insert into {conflicts} (key, mode, superseded_job_id, superseded_state,"
        " superseded_attempts, superseded_max_attempts, successor_job_id)"
        " select 'old', 'replace', -n, 'locked', 1, 25, -n from generate_series(1, %s) n"
        " returning id) select max(id) as id from filled",
        [count],
    )
    return int(row.id)


def test_the_record_keeps_its_bound(stage: Stage) -> None:
    newest = fill(stage, BOUND)
    for number in range(3):
        key = f"k{number}"
        stage.make_job(key, locked_at="now", locked_by="worker", attempts=1)
        stage.add_job(job_key=key)
        (row,) = stage.query("select count(*), max(id) as newest from {conflicts}")
        assert row == (BOUND, newest + number + 1)


def test_a_record_that_has_grown_too_long_shrinks_by_and_by(stage: Stage) -> None:
    fill(stage, BOUND + 30)
    keys = [f"k{number}" for number in range(40)]
    for key in keys:
        stage.make_job(key, locked_at="now", locked_by="worker", attempts=1)
    for key in keys[:10]:
        stage.add_job(job_key=key)
    assert stage.count("conflicts") == BOUND + 20
    stage.add_jobs(None, [spec(job_key=key) for key in keys[10:]])
    assert stage.count("conflicts") == BOUND


def test_trimming_waits_for_nobody(stage: Stage) -> None:
    fill(stage, BOUND)
    holding = stage.session()
    stage.query("select from {conflicts} order by id limit 1 for update", session=holding)
    caller = stage.session(options="-c lock_timeout=1s")
    for key, count in [("a", BOUND + 1), ("b", BOUND)]:
        stage.make_job(key, locked_at="now", locked_by="worker", attempts=1)
        stage.add_job(caller, job_key=key)
        caller.commit()
        assert stage.count("conflicts") == count
        holding.rollback()
