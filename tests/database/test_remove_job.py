"""`remove_job` locks the holder first and then decides."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from testproject.uncorrected import VARIANTS
from tests.database.pausing import pause
from tests.database.stage import Row, Session, Stage, ago


def remove(stage: Stage, session: Session | None = None, key: str = "k") -> Row:
    (row,) = stage.query("select * from {remove_job}(%s)", [key], session)
    return row


@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"attempts": 3, "last_error": "boom"},
        {"attempts": 25, "last_error": "boom"},
        {"locked_at": ago(hours=4, minutes=1), "locked_by": "dead", "attempts": 1},
    ],
    ids=["available", "retried", "failed for good", "stale"],
)
def test_a_holder_that_does_not_run_is_deleted_and_returned(
    stage: Stage, columns: dict[str, object]
) -> None:
    stage.make_job("k", [1], **columns)
    other = stage.make_job("other")
    before = stage.holder("k")
    assert remove(stage) == before
    assert [job.id for job in stage.jobs()] == [other]


def test_a_running_holder_loses_its_key_and_its_attempts(stage: Stage) -> None:
    job_id = stage.make_job(
        "k", [1], locked_at=ago(hours=3, minutes=59), locked_by="worker", attempts=1
    )
    before = stage.job(job_id)
    row = remove(stage)
    assert row == stage.job(job_id)
    assert (row.id, row.key, row.attempts) == (job_id, None, 25)
    assert (row.locked_at, row.locked_by) == (before.locked_at, "worker")
    assert stage.count("conflicts") == 0


def test_without_a_holder_it_returns_a_null_row(stage: Stage) -> None:
    stage.make_job("other")
    assert set(remove(stage)) == {None}
    assert stage.count("jobs") == 1


def test_it_is_strict(stage: Stage) -> None:
    assert stage.query("select {remove_job}(null) is null as it") == [(True,)]


def check_a_new_job_of_the_key_is_removed_and_not_failed(stage: Stage) -> None:
    """The holder runs when the call looks first; before it acts, a free job has the key."""
    stage.make_job("k", [1], locked_at="now", locked_by="worker", attempts=1)
    with pause(stage, "jobs", "after delete") as paused:
        superseding = stage.session()
        call = stage.start(paused.session, lambda: remove(stage, paused.session))
        stage.wait_until_blocked_or_done(call, by=paused.keeper)
        if call.done():
            paused.session.commit()
        stage.add_job(superseding, payload=[2], job_key="k")
        superseding.commit()
        paused.resume()
        row = call.result()
        paused.session.commit()
    litter = [job for job in stage.jobs() if job.locked_at is None and not job.is_available]
    assert not litter, f"litter: {litter}; returned {row}"


def test_a_new_job_of_the_key_does_not_become_litter(stage: Stage) -> None:
    check_a_new_job_of_the_key_is_removed_and_not_failed(stage)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_check_catches_the_fault(stage: Stage, variant: str) -> None:
    stage.use_uncorrected(variant)
    with pytest.raises(AssertionError, match="litter"):
        check_a_new_job_of_the_key_is_removed_and_not_failed(stage)


def superseded(stage: Stage, session: Session) -> None:
    stage.add_job(session, payload=[2], job_key="k")


def completed(stage: Stage, session: Session) -> None:
    stage.query("delete from {jobs} where key = 'k'", session=session)


def replaced(stage: Stage, session: Session) -> None:
    completed(stage, session)
    stage.add_job(session, payload=[2], job_key="k")


def failed(stage: Stage, session: Session) -> None:
    stage.query(
        "update {jobs} set locked_at = null, locked_by = null, last_error = 'boom' where key = 'k'",
        session=session,
    )


def removed(stage: Stage, session: Session) -> None:
    remove(stage, session)


@pytest.mark.parametrize(
    ("change", "payload"),
    [(superseded, [2]), (completed, None), (replaced, [2]), (failed, [1]), (removed, None)],
)
def test_it_decides_on_what_it_finds_after_waiting(
    stage: Stage, change: Callable[[Stage, Session], None], payload: list[int] | None
) -> None:
    stage.make_job("k", [1], locked_at="now", locked_by="worker", attempts=1)
    changing, operator = stage.session(), stage.session()
    change(stage, changing)
    call = stage.start(operator, lambda: remove(stage, operator))
    stage.wait_until_blocked(call, by=changing)
    changing.commit()
    row = call.result()
    operator.commit()

    assert row.payload == payload
    assert stage.holder("k") is None
    # What is left ran before, and was not touched by this call.
    assert all(job.locked_at is not None for job in stage.jobs())


def test_a_worker_takes_the_holder_first(stage: Stage) -> None:
    job_id = stage.make_job("k", [1])
    worker, operator = stage.session(), stage.session()
    assert stage.take(worker)
    call = stage.start(operator, lambda: remove(stage, operator))
    stage.wait_until_blocked(call, by=worker)
    worker.commit()
    row = call.result()
    operator.commit()
    assert (row.id, row.key, row.attempts, row.locked_by) == (job_id, None, 25, "worker")
    assert stage.job(job_id) == row
