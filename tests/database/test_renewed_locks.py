"""A live worker's lock never looks stale: it is renewed, job and queue together."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from django_graphile_worker.jobs import LockedJob
from django_graphile_worker.statements import worker as statements
from django_graphile_worker.statements.worker import QueueLock
from tests.database.lives import Lives
from tests.database.stage import Stage

A = "django:test:5:a"
B = "django:test:6:b"


@pytest.fixture
def lives(stage: Stage) -> Lives:
    lives = Lives(stage)
    lives.born(A, B)
    return lives


def hours_old(stage: Stage, table: str) -> list[float]:
    rows = stage.query(
        f"select extract(epoch from now() - locked_at) / 3600 as hours from {{{table}}}"
        " where locked_at is not null order by id"
    )
    return [round(float(row.hours), 2) for row in rows]


def taken(stage: Stage, lives: Lives, hours: float, **columns: Any) -> LockedJob:
    """A job that A has had for so long; with the time of its lock as A knows it."""
    stage.make_job(**columns)
    job = lives.take_one(A)
    lives.age([job], hours)
    return job._replace(locked_at=locked_at(stage, job))


def locked_at(stage: Stage, job: LockedJob) -> datetime:
    (row,) = stage.query("select locked_at from {jobs} where id = %s", [job.id])
    moment: datetime = row.locked_at
    return moment


def free(stage: Stage, lives: Lives, job: LockedJob) -> frozenset[int]:
    assert job.queue_id is not None
    lock = QueueLock(job.queue_id, job.id, job.locked_at)
    return stage.run(statements.free_queues(schema=stage.schema, worker_id=A, locks=[lock]))


def test_an_old_lock_of_a_live_worker_is_renewed(stage: Stage, lives: Lives) -> None:
    job = taken(stage, lives, 3.01, queue="lane")
    before = stage.job(job.id)

    assert lives.renew(A, B) == 1

    row = stage.job(job.id)
    assert hours_old(stage, "jobs") == hours_old(stage, "queues") == [0]
    assert row.locked_at == lives.queue("lane").locked_at
    assert row == before._replace(locked_at=row.locked_at)
    (renewed,) = stage.query("select * from {renewed}")
    assert (renewed.job_id, renewed.queue_id, renewed.worker_id) == (job.id, job.queue_id, A)
    assert (renewed.taken_at, renewed.locked_at) == (job.locked_at, row.locked_at)

    # By the time of its fetch, which is all that the worker knows.
    assert free(stage, lives, job) == frozenset()
    assert lives.queue("lane").locked_by is None


def test_a_younger_lock_is_left_alone(stage: Stage, lives: Lives) -> None:
    taken(stage, lives, 2.99, queue="lane")
    lives.renew(A)
    assert hours_old(stage, "jobs") == hours_old(stage, "queues") == [2.99]
    assert stage.count("renewed") == 0


def test_the_true_start_is_kept_through_several_renewals(stage: Stage, lives: Lives) -> None:
    job = taken(stage, lives, 3.5, queue="lane")
    lives.renew(A)
    lives.age([job], 3.5)
    stage.query("update {renewed} set locked_at = locked_at - interval '3.5 h'")
    lives.renew(A)

    (renewed,) = stage.query("select * from {renewed}")
    assert renewed.taken_at == job.locked_at
    assert renewed.locked_at == stage.job(job.id).locked_at
    assert hours_old(stage, "jobs") == [0]
    assert free(stage, lives, job) == frozenset()
    assert lives.queue("lane").locked_by is None


def test_the_record_of_an_earlier_attempt_is_not_taken_for_this_ones(
    stage: Stage, lives: Lives
) -> None:
    job = taken(stage, lives, 5)
    lives.renew(A)
    lives.rescue(A)
    lives.born("django:test:5:a2")
    stage.query("update {jobs} set run_at = now()")
    again = lives.take_one("django:test:5:a2")
    lives.age([again], 3.1)
    aged = locked_at(stage, again)
    lives.renew("django:test:5:a2")

    (renewed,) = stage.query("select * from {renewed}")
    assert renewed.taken_at == aged
    assert renewed.worker_id == "django:test:5:a2"
    assert renewed.job_id == job.id


@pytest.mark.parametrize("owner", ["dead", "foreign"])
def test_nobody_elses_lock_is_renewed(stage: Stage, lives: Lives, owner: str) -> None:
    taken(stage, lives, 3.5, queue="lane")
    if owner == "dead":
        stage.query("update {workers} set dead_at = now()")
    else:
        for table in ("jobs", "queues"):
            stage.query(f"update {{{table}}} set locked_by = 'worker-1'")
    lives.renew(A)
    assert hours_old(stage, "jobs") == hours_old(stage, "queues") == [3.5]


@pytest.mark.parametrize("held", ["jobs", "queues"])
def test_job_and_queue_are_renewed_together_or_not(stage: Stage, lives: Lives, held: str) -> None:
    taken(stage, lives, 3.5, queue="lane")
    session = stage.session()
    stage.query(f"select from {{{held}}} for update", session=session)
    assert lives.renew(A) == 0
    assert hours_old(stage, "jobs") == hours_old(stage, "queues") == [3.5]

    session.rollback()
    lives.renew(A)
    assert hours_old(stage, "jobs") == hours_old(stage, "queues") == [0]


def test_a_queue_that_was_unlocked_by_hand_does_not_hold_its_job_up(
    stage: Stage, lives: Lives
) -> None:
    taken(stage, lives, 3.5, queue="lane")
    stage.query("update {queues} set locked_by = null, locked_at = null")
    lives.renew(A)
    assert hours_old(stage, "jobs") == [0]
    (renewed,) = stage.query("select * from {renewed}")
    assert renewed.queue_id is None


def test_the_record_goes_when_the_lock_is_gone(stage: Stage, lives: Lives) -> None:
    job = taken(stage, lives, 3.5, queue="lane")
    lives.renew(A)
    lives.forget()
    assert stage.count("renewed") == 1

    stage.run(statements.complete_jobs(schema=stage.schema, worker_id=A, jobs=[job]))
    lives.forget()
    # Until the queue is free it is known by this.
    assert stage.count("renewed") == 1
    free(stage, lives, job)
    lives.forget()
    assert stage.count("renewed") == 0


def test_the_history_tells_the_true_start(stage: Stage, lives: Lives) -> None:
    job = taken(stage, lives, 3.5, queue="lane")
    lives.renew(A)
    lives.rescue(A)
    (error,) = lives.errors()
    assert error.locked_at == job.locked_at
