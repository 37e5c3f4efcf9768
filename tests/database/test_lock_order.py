"""Calls that meet on several rows wait for each other in one direction only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from testproject.uncorrected import VARIANTS
from tests.database.stage import Row, Session, Stage, ago, spec

Many = Callable[[Stage, Session, list[int]], list[Row]]
"""A call that concerns all the jobs with these ids."""

# In byte order, which is not the order of any language: capitals come first, then `_`.
KEYS = ["Z", "_", "a", "b", "ä"]


def add(stage: Stage, session: Session, ids: list[int]) -> list[Row]:
    return stage.add_jobs(session, [spec(job_key=key) for key in KEYS])


def add_backwards(stage: Stage, session: Session, ids: list[int]) -> list[Row]:
    return stage.add_jobs(session, [spec(job_key=key) for key in reversed(KEYS)])


def by_ids(function: str) -> Many:
    def call(stage: Stage, session: Session, ids: list[int]) -> list[Row]:
        return stage.query(f"select * from {{{function}}}(%s)", [ids], session)

    call.__name__ = function
    return call


def unlock(stage: Stage, session: Session, ids: list[int]) -> list[Row]:
    return stage.query("select {force_unlock_workers}(array['dead'])", session=session)


def carelessly(stage: Stage, session: Session, ids: list[int]) -> list[Row]:
    """What a function would do that thinks of ids only."""
    return stage.query(
        "with mine as materialized (select id from {jobs} where id = any (%s) order by id"
        " for update) delete from {jobs} where id in (select id from mine) returning *",
        [ids],
        session,
    )


CALLS: list[Many] = [
    add,
    add_backwards,
    by_ids("complete_jobs"),
    by_ids("permanently_fail_jobs"),
    by_ids("reschedule_jobs"),
    unlock,
]


def stale() -> dict[str, Any]:
    """A lock that every one of these calls disregards."""
    return {"locked_at": ago(hours=5), "locked_by": "dead", "attempts": 1}


def check_they_meet_at_the_first_key(stage: Stage, first: Many, second: Many) -> None:
    """The one waits in the middle of its rows; the other then gets to none of them."""
    state = stale() if unlock in (first, second) else {}
    # Made in the reverse of the right order.
    ids = [stage.make_job(key, **state) for key in [None, *reversed(KEYS), None]]
    holding, one, other = stage.session(), stage.session(), stage.session()
    stage.query("select from {jobs} where key = 'a' for update", session=holding)

    first_call = stage.start(one, lambda: first(stage, one, ids))
    stage.wait_until_blocked(first_call, by=holding)
    second_call = stage.start(other, lambda: second(stage, other, ids))
    stage.wait_until_blocked(second_call, by=one)
    holding.rollback()

    first_call.result()
    one.commit()
    second_call.result()
    other.commit()


@pytest.mark.parametrize("second", CALLS)
@pytest.mark.parametrize("first", CALLS)
def test_two_calls_meet_at_the_first_key(stage: Stage, first: Many, second: Many) -> None:
    check_they_meet_at_the_first_key(stage, first, second)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_check_catches_the_fault(stage: Stage, variant: str) -> None:
    stage.use_uncorrected(variant)
    with pytest.raises(AssertionError, match=r"deadlock|is not blocked by"):
        check_they_meet_at_the_first_key(stage, add_backwards, add)


@pytest.mark.parametrize("ours", CALLS)
def test_the_check_catches_a_careless_statement(stage: Stage, ours: Many) -> None:
    with pytest.raises(AssertionError, match=r"deadlock|is not blocked by"):
        check_they_meet_at_the_first_key(stage, carelessly, ours)


@pytest.mark.parametrize("second", CALLS[2:-1])
@pytest.mark.parametrize("first", CALLS[2:])
def test_a_key_that_is_taken_away_meanwhile_turns_no_order_around(
    stage: Stage, first: Many, second: Many
) -> None:
    """The first call saw the job with its key, the second sees it without."""
    loses, last, middle = (stage.make_job(key, **stale()) for key in "acb")
    superseding, holding = stage.session(), stage.session()
    one, other = stage.session(), stage.session()
    stage.query("select from {jobs} where key = 'b' for update", session=holding)
    stage.add_job(superseding, job_key="a")

    first_call = stage.start(one, lambda: first(stage, one, [loses, middle, last]))
    stage.wait_until_blocked(first_call, by=superseding)
    superseding.commit()
    stage.wait_until_blocked(first_call, by=holding)
    assert stage.job(loses).key is None
    second_call = stage.start(other, lambda: second(stage, other, [loses, last]))
    stage.wait_until_blocked(second_call, by=one)
    holding.rollback()

    first_call.result()
    one.commit()
    second_call.result()
    other.commit()
