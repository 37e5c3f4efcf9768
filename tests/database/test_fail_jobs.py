"""`fail_jobs` keeps the error, frees the job, and lets it run again later and later."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import exp

import pytest

from django_graphile_worker.jobs import LockedJob, Outcome
from django_graphile_worker.statements import worker as statements
from django_graphile_worker.statements.worker import Ended
from tests.conftest import Connect
from tests.database.test_get_jobs import ME, fetch
from tests.worker.conftest import queue as queue
from tests.worker.tools import Queue, run


def fail(queue: Queue, *jobs: LockedJob, worker_id: str = ME) -> Ended:
    return run(
        queue.session,
        statements.fail_jobs(
            schema=queue.schema,
            worker_id=worker_id,
            outcomes=[Outcome(job, f"error of {job.id}") for job in jobs],
        ),
    )


def database_now(queue: Queue) -> datetime:
    (row,) = queue.query("select clock_timestamp() as now")
    now: datetime = row["now"]
    return now


@pytest.mark.parametrize("attempts", [1, 2, 10, 11, 24])
def test_the_pause_grows_with_each_attempt_up_to_the_tenth(queue: Queue, attempts: int) -> None:
    job_id = queue.add()
    queue.set(job_id, attempts=attempts - 1)
    jobs = fetch(queue)
    pause = timedelta(seconds=exp(min(attempts, 10)))

    before = database_now(queue)
    assert fail(queue, *jobs) == Ended(1, None, [], [])
    after = database_now(queue)

    row = queue.job(job_id)
    assert row is not None
    assert before <= row["run_at"] - pause <= after
    assert row["last_error"] == f"error of {job_id}"
    assert (row["locked_by"], row["locked_at"]) == (None, None)
    assert row["attempts"] == attempts
    assert row["is_available"] is True


def test_a_later_run_at_is_kept_and_moved(queue: Queue) -> None:
    job_id = queue.add()
    jobs = fetch(queue)
    later = datetime.now(UTC) + timedelta(days=1)
    queue.set(job_id, run_at=later)
    fail(queue, *jobs)

    row = queue.job(job_id)
    assert row is not None
    assert row["run_at"] == later + timedelta(microseconds=round(exp(1) * 1e6))


def test_the_request_counts_as_unchanged(queue: Queue) -> None:
    """`updated_at` tells when somebody last asked for the job, as with a Node worker."""
    job_id = queue.add(job_key="k")
    queue.set(job_id, updated_at=datetime(2020, 1, 1, tzinfo=UTC))
    fail(queue, *fetch(queue))

    row = queue.job(job_id)
    assert row is not None
    assert row["updated_at"] == datetime(2020, 1, 1, tzinfo=UTC)
    assert row["revision"] == 0


def test_each_job_gets_its_own_error(queue: Queue) -> None:
    ids = [queue.add() for _ in range(3)]
    jobs = fetch(queue)
    fail(queue, *reversed(jobs))

    assert {row["id"]: row["last_error"] for row in queue.jobs()} == {
        job_id: f"error of {job_id}" for job_id in ids
    }


def test_after_the_last_attempt_the_job_stays_and_is_not_available(queue: Queue) -> None:
    job_id = queue.add(max_attempts=1, job_key="k")
    fail(queue, *fetch(queue))

    row = queue.job(job_id)
    assert row is not None
    assert (row["attempts"], row["max_attempts"], row["is_available"]) == (1, 1, False)
    assert (row["locked_by"], row["key"]) == (None, "k")


def test_a_superseded_job_is_not_retried(queue: Queue) -> None:
    superseded = queue.add(job_key="k")
    jobs = fetch(queue)
    successor = queue.add(job_key="k")

    assert fail(queue, *jobs) == Ended(1, None, [superseded], [])
    rows = {row["id"]: row for row in queue.jobs()}
    assert rows[superseded]["is_available"] is False
    assert rows[superseded]["last_error"] == f"error of {superseded}"
    assert rows[successor]["is_available"] is True


def test_nobody_elses_job_is_failed(queue: Queue) -> None:
    job_id = queue.add()
    jobs = fetch(queue)

    assert fail(queue, *jobs, worker_id="somebody") == Ended(0, frozenset(), [], [])
    row = queue.job(job_id)
    assert row is not None
    assert (row["locked_by"], row["last_error"]) == (ME, None)


def test_a_row_that_a_caller_holds_is_missed(queue: Queue, connect: Connect) -> None:
    queue.add()
    queue.add()
    held, free = fetch(queue)
    caller = connect(autocommit=False)
    queue.query("select from {jobs} where id = %s for update", [held.id], session=caller)
    queue.session.execute("set lock_timeout = '1s'")

    assert fail(queue, held, free) == Ended(1, frozenset({free.id}), [], [])
    caller.rollback()
    assert fail(queue, held).count == 1
