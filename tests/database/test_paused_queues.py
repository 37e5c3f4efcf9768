"""A paused queue: nobody takes a job of it, and no ending or sweep frees it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from django_graphile_worker.jobs import LockedJob, Outcome
from django_graphile_worker.statements import queues
from django_graphile_worker.statements import worker as statements
from django_graphile_worker.statements.base import Statement
from django_graphile_worker.statements.worker import QueueLock
from tests.database.lives import Change, Lives, shown_by
from tests.database.stage import Session, Stage

ONE = "django:test:5:one"
OTHER = "django:test:6:other"


@pytest.fixture
def lives(stage: Stage) -> Lives:
    lives = Lives(stage)
    lives.born(ONE, OTHER)
    return lives


def pause(lives: Lives, session: Session | None = None) -> bool | None:
    return lives.run(queues.pause_queue(schema=lives.schema, queue_name="lane"), session)


def resume(lives: Lives) -> tuple[int, str] | None:
    found = lives.run(queues.lock_queue(schema=lives.schema, queue_name="lane"))
    assert found is not None
    assert found[1]
    return lives.run(queues.resume_queue(schema=lives.schema, queue_id=found[0]))


def freed(lives: Lives, job: LockedJob) -> Statement[frozenset[int]]:
    """What a worker does when it has ended a job of a lane."""
    assert job.queue_id is not None
    assert job.locked_at is not None
    lock = QueueLock(job.queue_id, job.id, job.locked_at)
    return statements.free_queues(schema=lives.schema, worker_id=ONE, locks=[lock])


def is_paused(lives: Lives) -> bool:
    return bool(lives.queue("lane").locked_by == queues.PAUSED)


def test_nobody_takes_a_job_of_it_until_it_is_resumed(stage: Stage, lives: Lives) -> None:
    job_id = stage.make_job(queue="lane")
    assert pause(lives) is True
    assert pause(lives) is False
    assert lives.take(ONE) == []
    due = statements.due_jobs_exist(schema=lives.schema, identifiers=["task"])
    assert not lives.run(due)
    rescued = lives.sweep(orphans=True, foreign=True)
    assert (rescued.jobs, rescued.queues) == (0, 0)
    assert lives.take(ONE) == []
    assert resume(lives) is None
    assert lives.take_one(ONE).id == job_id


def test_a_queue_that_is_not_there_is_told(lives: Lives) -> None:
    assert pause(lives) is None
    assert lives.run(queues.lock_queue(schema=lives.schema, queue_name="lane")) is None


@pytest.mark.parametrize("ending", ["completed", "failed", "returned", "died"])
def test_a_job_taken_before_goes_on_and_its_end_does_not_resume(
    stage: Stage, lives: Lives, ending: str
) -> None:
    stage.make_job(queue="lane", max_attempts=1)
    job = lives.take_one(ONE)
    behind = stage.make_job(queue="lane")
    pause(lives)
    assert resume(lives) == (job.id, ONE)
    assert lives.take(OTHER) == []

    ended = {"schema": lives.schema, "worker_id": ONE}
    if ending == "completed":
        lives.run(statements.complete_jobs(**ended, jobs=[job]))
        assert lives.run(freed(lives, job)) == frozenset()
    elif ending == "failed":
        lives.run(statements.fail_jobs(**ended, outcomes=[Outcome(job, "no")]))
    elif ending == "returned":
        lives.run(statements.return_jobs(**ended, jobs=[job]))
    else:
        stage.query("update {workers} set last_beat_at = now() - interval '31 s'")
        lives.born("django:test:7:later")
        lives.sweep()
    assert is_paused(lives)
    assert lives.take("django:test:7:later" if ending == "died" else OTHER) == []
    assert resume(lives) is None
    taken = lives.take_one("django:test:7:later" if ending == "died" else OTHER)
    assert taken.id == (job.id if ending == "returned" else behind)


@pytest.mark.parametrize(
    "careless", [None, Change("resume_queue", {" and not exists (select from running)": ""})]
)
def test_two_jobs_of_a_lane_never_run_at_once(
    stage: Stage, lives: Lives, careless: Change | None
) -> None:
    stage.make_job(queue="lane")
    stage.make_job(queue="lane")
    lives.careless = careless
    with shown_by(careless):
        lives.take_one(ONE)
        pause(lives)
        resume(lives)
        assert lives.take(OTHER) == []


def test_a_pause_waits_for_a_fetch_and_the_job_keeps_it_from_being_resumed(
    stage: Stage, lives: Lives
) -> None:
    stage.make_job(queue="lane")
    fetching, pausing = stage.session(), stage.session()
    pausing.autocommit = True
    (job,) = lives.take(ONE, fetching)
    call = stage.start(pausing, lambda: pause(lives, pausing))
    stage.wait_until_blocked(call, by=fetching)
    fetching.commit()
    assert call.result() is True
    assert resume(lives) == (job.id, ONE)
    assert lives.take(OTHER) == []
    assert is_paused(lives)


def test_a_pause_waits_for_a_completion_and_holds_after_it(stage: Stage, lives: Lives) -> None:
    stage.make_job(queue="lane")
    behind = stage.make_job(queue="lane", priority=1)
    job = lives.take_one(ONE)
    lives.run(statements.complete_jobs(schema=lives.schema, worker_id=ONE, jobs=[job]))
    freeing, pausing = stage.session(), stage.session()
    pausing.autocommit = True
    assert lives.run(freed(lives, job), freeing) == frozenset()
    call = stage.start(pausing, lambda: pause(lives, pausing))
    stage.wait_until_blocked(call, by=freeing)
    freeing.commit()
    assert call.result() is True
    assert lives.take(OTHER) == []
    assert resume(lives) is None
    assert lives.take_one(OTHER).id == behind


def test_a_completion_under_way_does_not_leave_the_queue_locked(stage: Stage, lives: Lives) -> None:
    """It has deleted the job and not committed: to whoever resumes, the job runs still."""
    stage.make_job(queue="lane")
    job = lives.take_one(ONE)
    pause(lives)
    completing = stage.session()
    ended = statements.complete_jobs(schema=lives.schema, worker_id=ONE, jobs=[job])
    lives.run(ended, completing)
    assert resume(lives) == (job.id, ONE)
    completing.commit()
    assert resume(lives) is None
    row = lives.queue("lane")
    assert (row.locked_by, row.locked_at, row.is_available) == (None, None, True)


def test_it_never_grows_old(stage: Stage, lives: Lives) -> None:
    """Node frees what has been locked for over four hours; this never will have been."""
    stage.make_job(queue="lane")
    pause(lives)
    (row,) = stage.query(
        "select locked_at < now() - %s as is_old, is_available from {queues}", [timedelta(hours=4)]
    )
    assert (row.is_old, row.is_available) == (False, False)
