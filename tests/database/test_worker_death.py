"""A worker that is declared dead ends nothing any more, in each order of events.

A stopped worker (A) knows nothing of its death. Whatever it had on its way when it was stopped goes
on when it is continued: it must end nothing that is not its own any more. What shows that is run
also on a careless form of the statement, where it has to fail.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from django_graphile_worker.jobs import LockedJob, Outcome
from django_graphile_worker.statements import worker as statements
from django_graphile_worker.statements.worker import QueueLock
from tests.database.lives import Change, Lives, shown_by
from tests.database.pausing import pause
from tests.database.stage import Session, Stage

A = "django:test:5:a"
B = "django:test:6:b"


@pytest.fixture
def lives(stage: Stage) -> Lives:
    lives = Lives(stage)
    lives.born(A, B)
    return lives


def complete(lives: Lives, job: LockedJob, session: Session | None = None) -> int:
    return lives.run(
        statements.complete_jobs(schema=lives.schema, worker_id=A, jobs=[job]), session
    ).count


def fail(lives: Lives, job: LockedJob, session: Session | None = None) -> int:
    outcome = Outcome(job, "the stopped one's error")
    return lives.run(
        statements.fail_jobs(schema=lives.schema, worker_id=A, outcomes=[outcome]), session
    ).count


def give_back(lives: Lives, job: LockedJob, session: Session | None = None) -> int:
    return lives.run(
        statements.return_jobs(schema=lives.schema, worker_id=A, jobs=[job]), session
    ).count


def free_queue(lives: Lives, job: LockedJob, session: Session | None = None) -> int:
    assert job.queue_id is not None
    lock = QueueLock(job.queue_id, job.id, job.locked_at)
    lives.run(statements.free_queues(schema=lives.schema, worker_id=A, locks=[lock]), session)
    return 0


End = Callable[[Lives, LockedJob, Session | None], int]
ENDS: list[End] = [complete, fail, give_back, free_queue]
ends = pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)


def freed(stage: Stage, lives: Lives) -> None:
    """What has happened to A's job meanwhile: it is free."""
    stage.query("update {jobs} set run_at = now()")


def taken(stage: Stage, lives: Lives) -> None:
    """B has it."""
    freed(stage, lives)
    lives.take_one(B)


def failed_again(stage: Stage, lives: Lives) -> None:
    """B had it, and it has failed there."""
    taken(stage, lives)
    lives.rescue(B)


def taken_by_the_next_name(stage: Stage, lives: Lives) -> None:
    """A has it again, under its new name."""
    freed(stage, lives)
    lives.born("django:test:5:a2")
    lives.take_one("django:test:5:a2")


MEANWHILE = [freed, taken, failed_again, taken_by_the_next_name]
meanwhiles = pytest.mark.parametrize("meanwhile", MEANWHILE, ids=lambda each: each.__name__)


@meanwhiles
@ends
def test_a_dead_worker_ends_nothing(
    stage: Stage, lives: Lives, end: End, meanwhile: Callable[[Stage, Lives], None]
) -> None:
    stage.make_job(queue="lane")
    job = lives.take_one(A)
    lives.rescue(A)
    meanwhile(stage, lives)
    before = (stage.jobs(), lives.queue("lane"), lives.errors())

    assert end(lives, job, None) == 0
    assert (stage.jobs(), lives.queue("lane"), lives.errors()) == before


# Where the statement of the stopped worker is held up: its snapshot is taken, nothing is locked.
HELD_UP: dict[End, tuple[str, str]] = {
    complete: ("jobs", "before delete"),
    fail: ("jobs", "before update"),
    give_back: ("jobs", "before delete"),
    free_queue: ("queues", "before update"),
}
# Careless: whose it is, is looked at in the snapshot, and not again once the row is locked.
UNLOCKED = {"  for update skip locked\n": ""}
CARELESS: dict[End, Change] = {
    complete: Change("complete_jobs", {**UNLOCKED, "job.ctid": "job.id"}),
    fail: Change("fail_jobs", UNLOCKED),
    give_back: Change("return_jobs", UNLOCKED),
    free_queue: Change("free_queues", UNLOCKED),
}


@pytest.mark.parametrize(
    ("end", "meanwhile", "change"),
    [
        *((end, meanwhile, None) for end in ENDS for meanwhile in MEANWHILE),
        *((end, taken, CARELESS[end]) for end in ENDS),
    ],
    ids=lambda value: "careless" if isinstance(value, Change) else getattr(value, "__name__", ""),
)
def test_an_ending_that_was_on_its_way_ends_nothing_that_was_lost(
    stage: Stage,
    lives: Lives,
    end: End,
    meanwhile: Callable[[Stage, Lives], None],
    change: Change | None,
) -> None:
    stage.make_job(queue="lane")
    job = lives.take_one(A)
    lives.careless = change
    with pause(stage, *HELD_UP[end]) as held:
        call = stage.start(held.session, partial(end, lives, job, held.session))
        stage.wait_until_blocked(call, by=held.keeper)
        lives.rescue(A)
        meanwhile(stage, lives)
        before = (stage.jobs(), lives.queue("lane"), lives.errors())
        held.resume()
        count = call.result()
        held.session.commit()
    with shown_by(change):
        assert (stage.jobs(), lives.queue("lane"), lives.errors()) == before
    with shown_by(change if end is not free_queue else None):
        assert count == 0


@ends
def test_an_ending_that_is_open_is_not_rescued(stage: Stage, lives: Lives, end: End) -> None:
    stage.make_job(queue="lane")
    job = lives.take_one(A)
    session = stage.session()
    count = end(lives, job, session)
    before = stage.jobs()

    rescued = lives.rescue(A)
    # The other one of the two, job and queue, is free: nobody works on it any more.
    assert (rescued.jobs, rescued.queues) == ((1, 0) if end is free_queue else (0, 1))
    assert count == (0 if end is free_queue else 1)
    if end is not free_queue:
        assert stage.jobs() == before
    session.commit()
    assert not lives.sweep()


@ends
def test_an_ending_that_was_rolled_back_is_rescued(stage: Stage, lives: Lives, end: End) -> None:
    job_id = stage.make_job(queue="lane")
    job = lives.take_one(A)
    session = stage.session()
    end(lives, job, session)
    lives.rescue(A)
    session.rollback()

    assert lives.sweep()
    row = stage.job(job_id)
    assert (row.locked_by, row.attempts) == (None, 1)
    assert lives.queue("lane").locked_by is None


@pytest.mark.parametrize("verdict", ["commit", "rollback"])
@ends
def test_an_ending_does_not_wait_for_an_open_rescue(
    stage: Stage, lives: Lives, end: End, verdict: str
) -> None:
    job_id = stage.make_job(queue="lane")
    job = lives.take_one(A)
    watch = stage.session()
    assert lives.rescue(A, session=watch).jobs == 1
    assert end(lives, job, None) == 0  # what it misses, it tries again
    getattr(watch, verdict)()

    count = end(lives, job, None)
    if verdict == "commit":
        assert count == 0
        assert stage.job(job_id).last_error.startswith("WorkerDied: ")
    else:
        assert (count, lives.queue("lane").locked_by) == (
            (0, None) if end is free_queue else (1, A)
        )


# Taken by the dead


def test_a_fetch_that_was_on_its_way_takes_nothing_for_long(stage: Stage, lives: Lives) -> None:
    job_id = stage.make_job(queue="lane")
    with pause(stage, "jobs", "before update") as held:
        call = stage.start(held.session, partial(lives.take, A, held.session))
        stage.wait_until_blocked(call, by=held.keeper)
        lives.rescue(A)
        held.resume()
        (job,) = call.result()
        held.session.commit()
    assert stage.job(job_id).locked_by == A

    for end in ENDS:
        assert end(lives, job, None) == 0
    rescued = lives.sweep()
    assert (rescued.jobs, rescued.queues) == (1, 1)
    stage.query("update {jobs} set run_at = now()")
    assert lives.take_one(B).id == job_id


def test_a_fetch_under_way_at_the_sweep_is_found_by_the_next(stage: Stage, lives: Lives) -> None:
    stage.make_job(queue="lane")
    session = stage.session()
    lives.take_one(A, session)
    assert lives.rescue(A).jobs == 0
    session.commit()
    assert lives.sweep().jobs == 1
