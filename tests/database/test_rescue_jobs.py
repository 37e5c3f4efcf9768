"""`rescue` frees what the dead have locked, once, and takes nothing from the living."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from django_graphile_worker.jobs import Outcome
from django_graphile_worker.statements import worker as statements
from django_graphile_worker.worker.identity import PREFIX
from tests.database.lives import WATCH, Lives
from tests.database.stage import Row, Stage

DEAD = "django:test:3:dead"
OTHER = "django:test:4:other"


@pytest.fixture
def lives(stage: Stage) -> Lives:
    return Lives(stage)


def is_free(row: Row) -> bool:
    return bool(row.locked_by is None and row.locked_at is None)


def test_a_dead_workers_job_runs_again_after_its_backoff(stage: Stage, lives: Lives) -> None:
    lives.born(DEAD)
    job_id = stage.make_job(attempts=1, run_at=datetime.now(UTC))
    lives.take_one(DEAD)
    before = stage.job(job_id)
    stage.query("update {workers} set last_beat_at = now() - interval '31 s'")

    rescued = lives.sweep()

    assert (rescued.workers, rescued.owners) == ((DEAD,), (DEAD,))
    assert (rescued.jobs, rescued.queues, rescued.failed) == (1, 0, 0)
    row = stage.job(job_id)
    assert is_free(row)
    assert row.is_available
    assert row.attempts == 2
    assert row.last_error == f"WorkerDied: the worker {DEAD} died before it had ended this job."
    (now,) = stage.query("select dead_at from {workers} where dead_at is not null")
    assert row.run_at - now.dead_at == timedelta(seconds=7.389056)  # e ** 2
    assert row.payload == before.payload
    (error,) = lives.errors()
    assert (error.job_id, error.task_identifier, error.attempt) == (job_id, "task", 2)
    assert (error.max_attempts, error.error, error.worker_id) == (25, row.last_error, DEAD)
    assert error.locked_at == before.locked_at


def test_a_later_run_at_is_kept_below_the_backoff(stage: Stage, lives: Lives) -> None:
    lives.born(DEAD)
    job_id = stage.make_job()
    lives.take_one(DEAD)
    later = datetime.now(UTC) + timedelta(hours=1)
    stage.query("update {jobs} set run_at = %s", [later])  # an operator has put it off meanwhile

    lives.rescue(DEAD)
    assert stage.job(job_id).run_at == later + timedelta(seconds=2.718282)


def test_the_last_attempt_fails_for_good_and_the_next_job_of_the_lane_runs(
    stage: Stage, lives: Lives
) -> None:
    lives.born(DEAD, OTHER)
    exhausted = stage.make_job(queue="lane", max_attempts=1, priority=-1)
    behind = stage.make_job(queue="lane")
    lives.take_one(DEAD)
    assert lives.take(OTHER) == []

    rescued = lives.rescue(DEAD)

    assert (rescued.jobs, rescued.queues, rescued.failed) == (1, 1, 1)
    row = stage.job(exhausted)
    assert is_free(row)
    assert (row.is_available, row.attempts) == (False, 1)
    assert "died before it had ended this job" in row.last_error
    assert lives.take_one(OTHER).id == behind


def test_the_living_keep_what_they_have(stage: Stage, lives: Lives) -> None:
    lives.born(DEAD, silent=29)
    lives.born("slow", silent=100, stale_after="101 s")
    stage.make_job(queue="lane")
    stage.make_job()
    lives.take(DEAD)
    before = (stage.jobs(), lives.queue("lane"))

    assert not lives.sweep(orphans=True, foreign=True)
    assert (stage.jobs(), lives.queue("lane")) == before
    assert lives.beat(DEAD, "slow") == {DEAD, "slow"}


def test_a_queue_is_freed_also_where_its_job_is_gone_or_held(stage: Stage, lives: Lives) -> None:
    lives.born(DEAD)
    gone = stage.make_job(queue="gone")
    held = stage.make_job(queue="held", key="k")
    lives.take(DEAD)
    stage.query("delete from {jobs} where id = %s", [gone])
    caller = stage.session()
    stage.add_job(caller, payload=[2], job_key="k")

    rescued = lives.rescue(DEAD)
    assert (rescued.jobs, rescued.queues) == (0, 2)
    assert is_free(lives.queue("gone"))
    assert is_free(lives.queue("held"))
    assert stage.job(held).locked_by == DEAD

    # The caller's row is left for a later sweep, which knows what the caller did.
    caller.commit()
    assert lives.sweep().jobs == 1
    assert is_free(stage.job(held))


def test_a_lock_that_came_later_under_the_dead_name_is_freed_later(
    stage: Stage, lives: Lives
) -> None:
    lives.born(DEAD)
    assert lives.rescue(DEAD).workers == (DEAD,)
    # A fetch that had begun before, and seen itself alive, ends only now.
    job_id = stage.make_job(queue="lane", attempts=1, locked_by=DEAD, locked_at=datetime.now(UTC))
    stage.query("update {queues} set locked_by = %s, locked_at = now()", [DEAD])
    stage.query("update {workers} set dead_at = now() - interval '1 h' where dead_at is not null")
    assert lives.forget() == 0

    rescued = lives.sweep()
    assert (rescued.workers, rescued.jobs, rescued.queues) == ((), 1, 1)
    assert is_free(stage.job(job_id))
    assert lives.forget() == 1
    assert lives.row(DEAD) is None


def test_a_row_stays_for_a_while_after_death(stage: Stage, lives: Lives) -> None:
    lives.born(DEAD)
    lives.rescue(DEAD)
    assert lives.forget() == 0
    stage.query(
        "update {workers} set dead_at = now() - interval '11 min' where dead_at is not null"
    )
    assert lives.forget() == 1


def test_locks_of_ours_without_a_row_are_freed(stage: Stage, lives: Lives) -> None:
    ago = datetime.now(UTC) - timedelta(minutes=2)
    job_id = stage.make_job(queue="lane", attempts=1, locked_by=f"{PREFIX}x", locked_at=ago)
    stage.query("update {queues} set locked_by = %s, locked_at = %s", [f"{PREFIX}x", ago])
    young = stage.make_job(attempts=1, locked_by=f"{PREFIX}y", locked_at=datetime.now(UTC))

    assert not lives.sweep()
    rescued = lives.sweep(orphans=True)
    assert (rescued.workers, rescued.jobs, rescued.queues) == ((), 1, 1)
    assert is_free(stage.job(job_id))
    assert "not known any more" in stage.job(job_id).last_error
    assert is_free(lives.queue("lane"))
    assert stage.job(young).locked_by == f"{PREFIX}y"


@pytest.mark.parametrize("owner", ["worker-7f3", None])
def test_others_locks_are_freed_after_four_hours_only(
    stage: Stage, lives: Lives, owner: str | None
) -> None:
    def lock(hours: float, **columns: Any) -> int:
        at = datetime.now(UTC) - timedelta(hours=hours)
        return stage.make_job(locked_by=owner, locked_at=at, **columns)

    later = datetime.now(UTC) + timedelta(hours=1)
    young = lock(3.99, attempts=1)
    old = lock(4.01, attempts=1, last_error="before", run_at=later)
    exhausted = lock(4.01, attempts=25)
    for name, hours in (("young", 3.99), ("old", 4.01)):
        stage.make_name("queues", "queue_name", name)
        stage.query(
            "update {queues} set locked_by = %s, locked_at = now() - %s * interval '1 h'"
            " where queue_name = %s",
            [owner, hours, name],
        )

    assert not lives.sweep(orphans=True)
    rescued = lives.sweep(foreign=True)

    assert (rescued.workers, rescued.jobs, rescued.queues, rescued.failed) == ((), 2, 1, 1)
    assert stage.job(young).locked_at is not None
    row = stage.job(old)
    assert is_free(row)
    assert (row.run_at, row.attempts, row.last_error) == (later, 1, "before")
    assert "for more than four hours" in stage.job(exhausted).last_error
    assert is_free(lives.queue("old"))
    assert lives.queue("young").locked_at is not None


def test_a_superseded_job_fails_and_its_batch_runs_once_more(stage: Stage, lives: Lives) -> None:
    lives.born(DEAD)
    plain = stage.make_job("a", {"n": 1})
    batch = stage.make_job("b", [1, 2])
    last = stage.make_job("c", [1], max_attempts=1)
    lives.take(DEAD)
    for key in "abc":
        stage.add_job(payload=[3], job_key=key)

    rescued = lives.rescue(DEAD)

    assert (rescued.jobs, rescued.failed) == (3, 2)
    for job_id in (plain, last):
        row = stage.job(job_id)
        assert (row.is_available, row.attempts) == (False, row.max_attempts)
        assert "died before it had ended" in row.last_error
    row = stage.job(batch)
    assert (row.is_available, row.attempts, row.payload) == (True, 24, [1, 2])
    # After the backoff of its first attempt, not of the twenty-fifth.
    assert row.run_at < datetime.now(UTC) + timedelta(seconds=10)
    outcomes = {
        row.superseded_job_id: row.outcome
        for row in stage.query("select * from {conflicts} where finished_at is not null")
    }
    assert outcomes == {plain: "failed", batch: "returned", last: "failed"}
    assert [error.attempt for error in lives.errors()] == [1, 1, 1]

    # One more run, not more: when that dies as well, it has failed.
    lives.born(OTHER)
    stage.query("update {jobs} set run_at = now() where id = %s", [batch])
    assert batch in {job.id for job in lives.take(OTHER)}
    lives.rescue(OTHER)
    assert not stage.job(batch).is_available


def test_many_jobs_are_freed_in_several_sweeps(stage: Stage, lives: Lives) -> None:
    lives.born(DEAD)
    for _ in range(5):
        stage.make_job()
    lives.take(DEAD)

    assert lives.rescue(DEAD, most=3).jobs == 3
    assert lives.sweep(most=3).jobs == 2
    assert lives.sweep().jobs == 0


def test_who_leaves_goes_unless_something_is_locked_by_its_name(stage: Stage, lives: Lives) -> None:
    lives.born(DEAD, OTHER)
    job_id = stage.make_job(queue="lane")
    (job,) = lives.take(DEAD)

    assert lives.leave(OTHER)
    assert lives.row(OTHER) is None
    assert not lives.leave(DEAD)
    assert lives.row(DEAD).dead_at is not None
    assert lives.beat(DEAD) == set()

    # Others free it with their next sweep, not only when it is stale.
    assert lives.sweep().jobs == 1
    assert is_free(stage.job(job_id))
    ended = stage.run(
        statements.fail_jobs(schema=stage.schema, worker_id=DEAD, outcomes=[Outcome(job, "late")])
    )
    assert ended.count == 0


def test_who_has_only_a_queue_left_does_not_go(stage: Stage, lives: Lives) -> None:
    lives.born(DEAD)
    job_id = stage.make_job(queue="lane")
    lives.take(DEAD)
    stage.query("delete from {jobs} where id = %s", [job_id])

    assert not lives.leave(DEAD)
    assert lives.sweep().queues == 1


def test_nobody_sweeps_who_is_dead_or_unknown(stage: Stage, lives: Lives) -> None:
    lives.born(WATCH, dead_at=datetime.now(UTC))
    lives.born(DEAD, silent=31)
    assert lives.rescue(by=WATCH).workers == ()
    assert lives.rescue(by="django:nobody").workers == ()
    assert lives.rescue(by=DEAD).workers == ()  # nor does anybody declare itself dead


def test_the_prefix_is_the_one_that_workers_have() -> None:
    assert PREFIX == "django:"  # rescue.sql names it
