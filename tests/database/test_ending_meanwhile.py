"""The key's holder ends, in any way there is, while a request waits for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from django_graphile_worker.jobs import LockedJob, Outcome
from django_graphile_worker.statements import worker as statements
from tests.database.stage import Session, Stage
from tests.database.ways import Way

End = Callable[[Stage, Session, LockedJob], object]

NEW = "a new job, none superseded"
SAME = "the holder, changed in place"
SUPERSEDED = "a new job, the holder superseded"


@dataclass(frozen=True)
class Ending:
    """What another session does to the holder, and what the request then comes to."""

    end: End
    committed: str
    rolled_back: str = SUPERSEDED
    running: bool = True
    max_attempts: int = 25


def complete(stage: Stage, session: Session, job: LockedJob) -> None:
    statement = statements.complete_jobs(schema=stage.schema, worker_id="worker", jobs=[job])
    assert stage.run(statement, session).count == 1


def fail(stage: Stage, session: Session, job: LockedJob) -> None:
    statement = statements.fail_jobs(
        schema=stage.schema, worker_id="worker", outcomes=[Outcome(job, "boom")]
    )
    assert stage.run(statement, session).count == 1


def give_back(stage: Stage, session: Session, job: LockedJob) -> None:
    statement = statements.return_jobs(schema=stage.schema, worker_id="worker", jobs=[job])
    assert stage.run(statement, session).count == 1


def remove(stage: Stage, session: Session, job: LockedJob) -> None:
    (row,) = stage.query("select * from {remove_job}('k')", session=session)
    assert row.id == job.id


def by_operator(call: str) -> End:
    def end(stage: Stage, session: Session, job: LockedJob) -> None:
        assert stage.query(f"select * from {call}", {"ids": [job.id]}, session)

    return end


ENDINGS = {
    "completed": Ending(complete, NEW),
    "failed": Ending(fail, SAME),
    "failed for good": Ending(fail, SUPERSEDED, max_attempts=1),
    "given back": Ending(give_back, SAME),
    "unlocked by force": Ending(by_operator("{force_unlock_workers}(array['worker'])"), SAME),
    "removed while it runs": Ending(remove, NEW),
    "removed": Ending(remove, NEW, SAME, running=False),
    "completed by an operator": Ending(
        by_operator("{complete_jobs}(%(ids)s)"), NEW, SAME, running=False
    ),
    "failed by an operator": Ending(
        by_operator("{permanently_fail_jobs}(%(ids)s)"), SUPERSEDED, SAME, running=False
    ),
    "rescheduled by an operator": Ending(
        by_operator("{reschedule_jobs}(%(ids)s, run_at => '2999-01-01 00:00+00')"),
        SAME,
        SAME,
        running=False,
    ),
}


def start(stage: Stage, ending: Ending) -> LockedJob:
    job_id = stage.make_job("k", [1], max_attempts=ending.max_attempts)
    (job,) = stage.take()
    assert job.id == job_id
    if not ending.running:
        stage.query("update {jobs} set locked_at = null, locked_by = null, attempts = 0")
    return job


@pytest.mark.parametrize("committed", [True, False], ids=["committed", "rolled back"])
@pytest.mark.parametrize("name", ENDINGS)
def test_the_request_is_kept_and_answered(
    stage: Stage, way: Way, name: str, committed: bool
) -> None:
    ending = ENDINGS[name]
    old = start(stage, ending)
    ender, caller = stage.session(), stage.session()
    ending.end(stage, ender, old)

    call = stage.start(caller, lambda: way.request(stage, caller, "k", 2))
    stage.wait_until_blocked(call, by=ender)
    if committed:
        ender.commit()
    else:
        ender.rollback()
    row = call.result()
    caller.commit()

    holder, before = stage.holder("k"), stage.job(old.id)
    conflicts = stage.query("select superseded_job_id, successor_job_id from {conflicts}")
    expected = ending.committed if committed else ending.rolled_back
    rescheduled = way.preserve_run_at and name.startswith("rescheduled") and committed
    if rescheduled:  # a request that preserves run_at has agreed to wait
        assert holder.payload == [1, 2]
        assert holder.run_at.year == 2999
    else:
        stage.assert_not_lost(2)
    assert row == holder
    if expected == SAME:
        assert holder.id == old.id
        assert (holder.payload, holder.attempts, holder.last_error) == ([1, 2], 0, None)
        assert holder.revision == 1
    else:
        assert holder.id != old.id
        assert (holder.payload, holder.revision) == ([2], 0)
    if expected == SUPERSEDED:
        assert conflicts == [(old.id, holder.id)]
        assert (before.key, before.attempts) == (None, before.max_attempts)
    else:
        assert conflicts == []
