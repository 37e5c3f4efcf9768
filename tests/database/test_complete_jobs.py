"""`complete_jobs` deletes what is ours, waits for nobody, and tells what it missed."""

from __future__ import annotations

from django_graphile_worker.jobs import LockedJob
from django_graphile_worker.statements import worker as statements
from django_graphile_worker.statements.worker import Ended
from tests.conftest import Connect
from tests.database.test_get_jobs import ME, fetch
from tests.worker.conftest import queue as queue
from tests.worker.tools import Queue, run


def complete(queue: Queue, *jobs: LockedJob, worker_id: str = ME) -> Ended:
    return run(
        queue.session,
        statements.complete_jobs(schema=queue.schema, worker_id=worker_id, jobs=jobs),
    )


def held(queue: Queue, *jobs: LockedJob) -> frozenset[int]:
    return run(
        queue.session,
        statements.get_held_jobs(schema=queue.schema, worker_id=ME, ids=[job.id for job in jobs]),
    )


def test_completed_jobs_are_gone(queue: Queue) -> None:
    queue.add()
    queue.add(job_key="k")
    other = queue.add("other")

    assert complete(queue, *fetch(queue)) == Ended(2, None, [], [])
    assert [row["id"] for row in queue.jobs()] == [other]


def test_nobody_elses_job_is_completed(queue: Queue) -> None:
    queue.add()
    jobs = fetch(queue)

    assert complete(queue, *jobs, worker_id="somebody") == Ended(0, frozenset(), [], [])
    assert len(queue.jobs()) == 1


def test_a_row_that_a_caller_holds_is_missed_and_still_ours(queue: Queue, connect: Connect) -> None:
    queue.add()
    queue.add(job_key="k")
    free, keyed = fetch(queue)
    caller = connect(autocommit=False)
    successor = queue.add(job_key="k", session=caller)
    queue.session.execute("set lock_timeout = '1s'")

    assert complete(queue, free, keyed) == Ended(1, frozenset({free.id}), [], [])
    assert held(queue, keyed) == {keyed.id}

    caller.commit()
    # Superseded now: that is told, so that its record can be finished.
    assert complete(queue, keyed) == Ended(1, None, [keyed.id], [])
    assert held(queue, keyed) == frozenset()
    assert [row["id"] for row in queue.jobs()] == [successor]


def test_a_superseding_that_is_rolled_back_leaves_the_job_to_be_completed(
    queue: Queue, connect: Connect
) -> None:
    queue.add(job_key="k")
    (job,) = fetch(queue)
    caller = connect(autocommit=False)
    queue.add(job_key="k", session=caller)
    queue.session.execute("set lock_timeout = '1s'")
    assert complete(queue, job).count == 0
    caller.rollback()

    assert complete(queue, job) == Ended(1, None, [], [])
    assert queue.jobs() == []


def test_a_job_without_key_is_never_called_superseded(queue: Queue) -> None:
    queue.add()

    assert complete(queue, *fetch(queue)).superseded == []


def test_the_record_of_a_superseding_is_finished_once(queue: Queue, connect: Connect) -> None:
    queue.add(job_key="k")
    (job,) = fetch(queue)
    queue.add(job_key="k")
    (record,) = queue.conflicts()
    assert (record["superseded_job_id"], record["outcome"]) == (job.id, None)

    def finish(outcome: str) -> int:
        return run(
            queue.session,
            statements.finish_conflicts(schema=queue.schema, job_ids=[job.id], outcome=outcome),
        )

    trimmer = connect(autocommit=False)
    queue.query("delete from {conflicts}", session=trimmer)
    queue.session.execute("set lock_timeout = '1s'")
    assert finish("completed") == 0
    trimmer.rollback()

    assert finish("completed") == 1
    assert finish("failed") == 0
    (record,) = queue.conflicts()
    assert record["outcome"] == "completed"
    assert record["finished_at"] >= record["recorded_at"]
