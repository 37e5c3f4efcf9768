"""A worker locks the key's holder before a request gets to it: the fault, and its correction."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from testproject.uncorrected import VARIANTS
from tests.database.stage import Session, Stage
from tests.database.ways import WAYS, Way

Check = Callable[[Stage, Way], None]


def check_worker_takes_the_holder_first(stage: Stage, way: Way) -> None:
    old = stage.make_job("k", [1])
    worker, caller = stage.session(), stage.session()
    assert [job.id for job in stage.take(worker)] == [old]

    call = stage.start(caller, lambda: way.request(stage, caller, "k", 2))
    stage.wait_until_blocked(call, by=worker)
    worker.commit()
    new = call.result()
    caller.commit()

    holder, superseded = stage.holder("k"), stage.job(old)
    stage.assert_not_lost(2)
    assert new == holder
    assert (new.payload, new.revision, new.attempts, new.locked_at) == ([2], 0, 0, None)
    assert superseded.key is None
    assert superseded.attempts == superseded.max_attempts
    assert (superseded.locked_by, superseded.payload) == ("worker", [1])


def check_inserted_and_taken_in_one_transaction(stage: Stage, way: Way) -> None:
    taker, caller = stage.session(), stage.session()
    stage.make_name("tasks", "identifier", "task")
    old = stage.add_job(taker, payload=[1], job_key="k", job_key_mode="unsafe_dedupe")
    assert [job.id for job in stage.take(taker)] == [old.id]

    call = stage.start(caller, lambda: way.request(stage, caller, "k", 2))
    stage.wait_until_blocked(call, by=taker)
    taker.commit()
    new = call.result()
    caller.commit()

    stage.assert_not_lost(2)
    assert new.id != old.id


def check_deduplicated_and_taken_in_one_transaction(stage: Stage, way: Way) -> None:
    old = stage.make_job("k", [1])
    taker, caller = stage.session(), stage.session()
    stage.add_job(taker, payload=[9], job_key="k", job_key_mode="unsafe_dedupe")
    assert [job.id for job in stage.take(taker)] == [old]

    call = stage.start(caller, lambda: way.request(stage, caller, "k", 2))
    stage.wait_until_blocked(call, by=taker)
    taker.commit()
    call.result()
    caller.commit()

    stage.assert_not_lost(2)


def check_successor_of_another_caller_is_taken(stage: Stage, way: Way) -> None:
    """The other caller supersedes a running job, and a worker takes what it has added."""
    old = stage.make_job("k", [1], locked_at="now", locked_by="worker", attempts=1)
    other, caller = stage.session(), stage.session()
    second = way.request(stage, other, "k", 2)
    assert second.id in [job.id for job in stage.take(other)]

    call = stage.start(caller, lambda: way.request(stage, caller, "k", 3))
    stage.wait_until_blocked(call, by=other)
    other.commit()
    third = call.result()
    caller.commit()

    stage.assert_not_lost(3)
    assert len({old, second.id, third.id}) == 3


def check_two_workers_take_two_holders_first(stage: Stage, way: Way) -> None:
    """Two requests in two calls, each before a worker of its own, one after the other."""
    for key in "ab":
        stage.make_job(key, [1], priority=ord(key))
    sessions: list[tuple[Session, Session]] = []
    for number, key in enumerate("ab", start=2):
        worker, caller = stage.session(), stage.session()
        sessions.append((worker, caller))
        stage.query(
            "update {jobs} set locked_at = now(), locked_by = 'worker', attempts = 1"
            " where key = %s",
            [key],
            worker,
        )

        def request(caller: Session = caller, key: str = key, number: int = number) -> object:
            return way.request(stage, caller, key, number)

        stage.wait_until_blocked(stage.start(caller, request), by=worker)

    for worker, _ in reversed(sessions):
        worker.commit()
    for call, (_, caller) in zip(stage.calls, sessions, strict=True):
        call.result()
        caller.commit()
    stage.assert_not_lost(2, 3)


CHECKS: list[Check] = [
    check_worker_takes_the_holder_first,
    check_inserted_and_taken_in_one_transaction,
    check_deduplicated_and_taken_in_one_transaction,
    check_successor_of_another_caller_is_taken,
    check_two_workers_take_two_holders_first,
]


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("check", CHECKS)
def test_the_request_is_kept_and_answered(stage: Stage, way: Way, check: Check) -> None:
    check(stage, way)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("way", [WAYS[0], WAYS[-1]], ids=str)
@pytest.mark.parametrize("check", CHECKS)
def test_the_check_catches_the_fault(stage: Stage, way: Way, check: Check, variant: str) -> None:
    stage.use_uncorrected(variant)
    with pytest.raises(AssertionError, match="lost"):
        check(stage, way)


@pytest.mark.parametrize("check", CHECKS)
def test_what_is_stored_is_enough_to_catch_the_fault(stage: Stage, check: Check) -> None:
    """Also for a caller that does not look at its answer, as most callers do."""

    class Heedless(Way):
        def request(self, stage, session, key, number, **fields):  # type: ignore[no-untyped-def]
            stage.add_job(session, payload=[number], job_key=key, **fields)
            return stage.query("select * from {jobs} where key = %s", [key], session)[0]

    stage.use_uncorrected("no_row")
    with pytest.raises(AssertionError, match="the runs that begin now"):
        check(stage, Heedless("heedless"))
