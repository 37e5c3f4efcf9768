"""`return_jobs` gives back what was taken and never begun, as if it had not been taken."""

from __future__ import annotations

import pytest

from django_graphile_worker.jobs import LockedJob
from django_graphile_worker.statements import worker as statements
from django_graphile_worker.statements.worker import Ended
from tests.conftest import Connect
from tests.database.test_get_jobs import ME, fetch, ids
from tests.worker.conftest import queue as queue
from tests.worker.tools import Queue, run


def give_back(queue: Queue, *jobs: LockedJob, worker_id: str = ME) -> Ended:
    return run(
        queue.session,
        statements.return_jobs(schema=queue.schema, worker_id=worker_id, jobs=jobs),
    )


def test_a_returned_job_is_as_it_was_before(queue: Queue) -> None:
    queue.add(job_key="k", queue_name="lane")
    queue.set(queue.add(), attempts=3, last_error="before")
    before = queue.jobs()
    jobs = fetch(queue)

    assert give_back(queue, *jobs) == Ended(2, None, [], [])
    assert queue.jobs() == before


def test_attempts_do_not_fall_below_zero(queue: Queue) -> None:
    job_id = queue.add()
    jobs = fetch(queue)
    queue.set(job_id, attempts=0)  # somebody has rescheduled it meanwhile
    give_back(queue, *jobs)

    row = queue.job(job_id)
    assert row is not None
    assert row["attempts"] == 0


def test_a_superseded_job_is_completed(queue: Queue) -> None:
    superseded = queue.add(payload={"old": 1}, job_key="k")
    jobs = fetch(queue)
    successor = queue.add(payload={"new": 1}, job_key="k")

    assert give_back(queue, *jobs) == Ended(1, None, [superseded], [])
    assert [row["id"] for row in queue.jobs()] == [successor]


@pytest.mark.parametrize("max_attempts", [1, 25])
def test_the_items_of_a_superseded_batch_get_one_run(queue: Queue, max_attempts: int) -> None:
    superseded = queue.add(payload=[1, 2], job_key="k", max_attempts=max_attempts)
    jobs = fetch(queue)
    queue.add(payload=[3], job_key="k")

    assert give_back(queue, *jobs) == Ended(1, None, [], [superseded])
    row = queue.job(superseded)
    assert row is not None
    assert (row["attempts"], row["is_available"]) == (max_attempts - 1, True)

    jobs = [job for job in fetch(queue) if job.id == superseded]
    assert ids(jobs) == [superseded]
    assert jobs[0].is_last_attempt


def test_the_last_attempt_of_a_job_without_key_is_given_back(queue: Queue) -> None:
    job_id = queue.add(max_attempts=1)
    give_back(queue, *fetch(queue))

    row = queue.job(job_id)
    assert row is not None
    assert (row["attempts"], row["is_available"]) == (0, True)


def test_nobody_elses_job_is_returned(queue: Queue) -> None:
    queue.add()
    jobs = fetch(queue)

    assert give_back(queue, *jobs, worker_id="somebody") == Ended(0, frozenset(), [], [])
    assert queue.locks() == 1


def test_a_row_that_a_caller_holds_is_missed(queue: Queue, connect: Connect) -> None:
    queue.add()
    queue.add(job_key="k")
    free, keyed = fetch(queue)
    caller = connect(autocommit=False)
    queue.add(job_key="k", session=caller)
    queue.session.execute("set lock_timeout = '1s'")

    assert give_back(queue, free, keyed) == Ended(1, frozenset({free.id}), [], [])
    caller.commit()
    assert give_back(queue, keyed) == Ended(1, None, [keyed.id], [])
