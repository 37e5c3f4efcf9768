"""What operators may do to jobs by their ids, and to those of workers that are dead."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.database.stage import Row, Stage, ago

OLD = datetime(2020, 1, 1, tzinfo=UTC)
LATE = datetime(2030, 1, 1, tzinfo=UTC)

STATES: dict[str, dict[str, Any]] = {
    "available": {},
    "failed": {"attempts": 25, "last_error": "boom"},
    "stale": {"locked_at": ago(hours=4, minutes=1), "locked_by": "dead", "attempts": 1},
}
FUNCTIONS = ["complete_jobs", "permanently_fail_jobs", "reschedule_jobs"]


def make(stage: Stage, state: str, **columns: Any) -> int:
    return stage.make_job(**{"run_at": OLD, "updated_at": OLD, **STATES[state], **columns})


def changed(before: Row, after: Row) -> dict[str, Any]:
    """The columns that a call changed, with their new values."""
    return {
        name: getattr(after, name)
        for name in before._fields
        if getattr(before, name) != getattr(after, name)
    }


@pytest.mark.parametrize("state", STATES)
def test_completing_deletes_and_returns(stage: Stage, state: str) -> None:
    job_id, other = make(stage, state), make(stage, "available")
    before = stage.job(job_id)
    assert stage.query("select * from {complete_jobs}(%s)", [[job_id]]) == [before]
    assert [job.id for job in stage.jobs()] == [other]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("message", [None, "", "no more of this"])
def test_failing_for_good_uses_up_the_attempts(
    stage: Stage, state: str, message: str | None
) -> None:
    job_id = make(stage, state, max_attempts=30, last_error="boom")
    before = stage.job(job_id)
    (row,) = stage.query(
        "select * from {permanently_fail_jobs}(%s, error_message => %s)", [[job_id], message]
    )
    assert row == stage.job(job_id)
    changes = changed(before, row)
    assert changes.pop("updated_at") > OLD
    changes.pop("is_available", None)
    text = "Manually marked as failed" if message is None else message
    assert changes == {"last_error": text, "attempts": 30}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(
    "wishes",
    [
        {},
        {"run_at": LATE},
        {"priority": -3},
        {"attempts": 2},
        {"max_attempts": 7},
        {"run_at": LATE, "priority": 1, "attempts": 3, "max_attempts": 9},
    ],
    ids=str,
)
def test_rescheduling_changes_what_is_given_and_nothing_else(
    stage: Stage, state: str, wishes: dict[str, Any]
) -> None:
    job_id = make(stage, state)
    before = stage.job(job_id)
    arguments = "".join(f", {name} => %({name})s" for name in wishes)
    (row,) = stage.query(
        f"select * from {{reschedule_jobs}}(%(ids)s{arguments})", {"ids": [job_id], **wishes}
    )
    assert row == stage.job(job_id)
    changes = changed(before, row)
    assert changes.pop("updated_at") > OLD
    changes.pop("is_available", None)
    assert changes == wishes


@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_a_worker_holds_is_left_alone(stage: Stage, function: str) -> None:
    running = make(
        stage, "stale", locked_at=ago(hours=3, minutes=59), locked_by="worker", key="running"
    )
    before = stage.job(running)
    free = make(stage, "available")
    rows = stage.query(f"select * from {{{function}}}(%s)", [[running, free, 0]])
    assert [row.id for row in rows] == [free]
    assert stage.job(running) == before


@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_a_worker_takes_first_is_left_alone_too(stage: Stage, function: str) -> None:
    job_id = make(stage, "available", key="k")
    worker, operator = stage.session(), stage.session()
    assert stage.take(worker)
    call = stage.start(
        operator,
        lambda: stage.query(f"select * from {{{function}}}(%s)", [[job_id]], operator),
    )
    stage.wait_until_blocked(call, by=worker)
    worker.commit()
    assert call.result() == []
    operator.commit()
    row = stage.job(job_id)
    assert (row.locked_by, row.key, row.attempts) == ("worker", "k", 1)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_ids_may_repeat_be_unknown_or_none_at_all(stage: Stage, function: str) -> None:
    job_id = make(stage, "available")
    call = f"select * from {{{function}}}(%s::bigint[])"
    assert stage.query(call, [[]]) == []
    assert stage.query(call, [None]) == []
    assert stage.query(call, [[0, -1]]) == []
    assert len(stage.query(call, [[job_id, job_id, 0]])) == 1


def test_unlocking_by_force_frees_jobs_and_queues_of_the_named_only(stage: Stage) -> None:
    def locked(by: str, **columns: Any) -> int:
        return make(stage, "stale", locked_at="now", locked_by=by, queue=by, **columns)

    first, second = locked("dead", attempts=3, last_error="boom"), locked("dead too", key="k")
    used_up = locked("dead", attempts=25)
    alive = locked("alive")
    stage.query("update {queues} set locked_at = now(), locked_by = queue_name")
    before = {job.id: job for job in stage.jobs()}

    answer = stage.query("select {force_unlock_workers}(array['dead', 'dead too', 'nobody'])")
    assert tuple(answer[0]) in [("",), (None,)]

    for job_id in (first, second, used_up):
        changes = changed(before[job_id], stage.job(job_id))
        changes.pop("is_available", None)
        # Neither the attempt is given back nor the job marked as changed.
        assert changes == {"locked_at": None, "locked_by": None}
    assert stage.job(alive) == before[alive]
    assert stage.job(first).is_available
    assert not stage.job(used_up).is_available
    queues = stage.query("select queue_name, locked_by from {queues} order by queue_name")
    assert queues == [("alive", "alive"), ("dead", None), ("dead too", None)]


@pytest.mark.parametrize("workers", ["null", "'{{}}'", "array[null]"])
def test_unlocking_nobody_unlocks_nothing(stage: Stage, workers: str) -> None:
    make(stage, "stale")
    make(stage, "failed")
    before = stage.jobs()
    stage.query(f"select {{force_unlock_workers}}({workers}::text[])")
    assert stage.jobs() == before


def test_a_job_that_is_unlocked_by_force_runs_again(stage: Stage) -> None:
    stage.make_job("k", [1], queue="lane")
    assert len(stage.take(worker="dead")) == 1
    assert stage.take() == []
    stage.query("select {force_unlock_workers}(array['dead'])")
    stage.assert_not_lost(1)
