"""REPEATABLE READ and SERIALIZABLE: a request succeeds or raises 40001; it never vanishes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from psycopg import IsolationLevel

from tests.database.stage import Session, Spec, Stage, spec
from tests.database.ways import WAYS, Way, assert_answers

LEVELS = [IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE]

Change = Callable[[Stage, Session], object]


def take(stage: Stage, session: Session) -> None:
    assert stage.take(session)


def make(stage: Stage, session: Session) -> None:
    stage.add_job(session, payload=[1], job_key="k")


def make_and_take(stage: Stage, session: Session) -> None:
    make(stage, session)
    take(stage, session)


def complete(stage: Stage, session: Session) -> None:
    assert stage.query("delete from {jobs} where key = 'k' returning id", session=session)


def deduplicate(stage: Stage, session: Session) -> None:
    stage.add_job(session, payload=[9], job_key="k", job_key_mode="unsafe_dedupe")


def supersede(stage: Stage, session: Session) -> None:
    assert stage.add_job(session, payload=[3], job_key="k").revision == 0


@dataclass(frozen=True)
class Meanwhile:
    """What another session does, to which holder, and whether both can succeed."""

    change: Change
    holder: str | None = "available"
    compatible: bool = False


MEANWHILE = {
    "a worker takes the holder": Meanwhile(take),
    "somebody makes the first job": Meanwhile(make, holder=None),
    "somebody makes it and a worker takes it": Meanwhile(make_and_take, holder=None),
    "somebody changes the holder": Meanwhile(make),
    "somebody deduplicates": Meanwhile(deduplicate),
    "somebody supersedes the holder": Meanwhile(supersede, holder="running"),
    "the holder is completed": Meanwhile(complete, holder="running", compatible=True),
}


def start(stage: Stage, holder: str | None) -> None:
    stage.make_name("tasks", "identifier", "task")
    if holder == "running":
        stage.make_job("k", [1], locked_at="now", locked_by="worker", attempts=1)
    elif holder == "available":
        stage.make_job("k", [1])


def request(stage: Stage, way: Way, session: Session, number: int, **fields: Any) -> bool:
    """Make the request and commit it; returns whether that was possible."""
    try:
        way.request(stage, session, "k", number, **fields)
        session.commit()
    except psycopg.errors.SerializationFailure:
        session.rollback()
        return False
    return True


@pytest.mark.parametrize("waits", [True, False], ids=["waiting", "looked before"])
@pytest.mark.parametrize("what", MEANWHILE)
@pytest.mark.parametrize("way", [WAYS[0], WAYS[-1]], ids=str)
@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
def test_success_or_40001(
    stage: Stage, level: IsolationLevel, way: Way, what: str, waits: bool
) -> None:
    meanwhile = MEANWHILE[what]
    start(stage, meanwhile.holder)
    other, caller = stage.session(), stage.session(level)
    if waits:
        meanwhile.change(stage, other)
        call = stage.start(caller, lambda: request(stage, way, caller, 2))
        stage.wait_until_blocked(call, by=other)
        other.commit()
        succeeded = call.result()
    else:
        caller.execute("select 1").fetchone()
        before = stage.query("select count(*) from {jobs}", session=caller)
        meanwhile.change(stage, other)
        other.commit()
        assert stage.query("select count(*) from {jobs}", session=caller) == before
        succeeded = request(stage, way, caller, 2)

    if meanwhile.compatible and not waits:
        # The row is gone for good, and nothing that the caller saw of it stands in the way.
        assert succeeded
    if not meanwhile.compatible:
        assert not succeeded
    if not succeeded:
        # The error said so, nothing was stored, and another try succeeds.
        assert not [job for job in stage.jobs() if 2 in job.payload]
        assert request(stage, way, caller, 2)
    stage.assert_not_lost(2)


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
@pytest.mark.parametrize("holder", [None, "available", "running"])
def test_alone_it_succeeds(
    stage: Stage, level: IsolationLevel, way: Way, holder: str | None
) -> None:
    start(stage, holder)
    assert request(stage, way, stage.session(level), 2)
    assert stage.count("conflicts") == (1 if holder == "running" else 0)
    stage.assert_not_lost(2)


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
@pytest.mark.parametrize("mode", ["replace", "unsafe_dedupe"])
def test_the_first_uses_of_a_name_succeed_or_raise_40001(
    stage: Stage, level: IsolationLevel, mode: str
) -> None:
    other, caller = stage.session(level), stage.session(level)
    stage.add_job(other, "new task", queue_name="new lane", job_key="a", job_key_mode=mode)

    def add() -> object:
        return stage.add_job(
            caller, "new task", queue_name="new lane", job_key="b", job_key_mode=mode
        )

    call = stage.start(caller, add)
    stage.wait_until_blocked(call, by=other)
    other.commit()
    with pytest.raises(psycopg.errors.SerializationFailure):
        call.result()
    caller.rollback()
    add()
    caller.commit()
    assert stage.count("queues") == 1
    assert stage.count("jobs") == 2


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
@pytest.mark.parametrize(
    "function",
    [
        "select * from {remove_job}('k')",
        "select * from {complete_jobs}(array(select id from {jobs}))",
        "select * from {permanently_fail_jobs}(array(select id from {jobs}))",
        "select * from {reschedule_jobs}(array(select id from {jobs}), priority => 1)",
    ],
)
def test_operators_succeed_or_get_40001(stage: Stage, level: IsolationLevel, function: str) -> None:
    start(stage, "available")
    other, operator = stage.session(), stage.session(level)
    make(stage, other)
    call = stage.start(operator, lambda: stage.query(function, session=operator))
    stage.wait_until_blocked(call, by=other)
    other.commit()
    with pytest.raises(psycopg.errors.SerializationFailure):
        call.result()
    operator.rollback()
    assert len(stage.query(function, session=operator)) == 1
    operator.commit()


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
def test_a_transaction_sees_its_own_requests_again(
    stage: Stage, way: Way, level: IsolationLevel
) -> None:
    caller = stage.session(level)
    first = way.request(stage, caller, "k", 1)
    second = way.request(stage, caller, "k", 2)
    caller.commit()
    assert (second.id, second.payload, second.revision) == (first.id, [1, 2], 1)
    stage.assert_not_lost(1, 2)


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
@pytest.mark.parametrize("specs", [[], [spec()]], ids=["keyed", "mixed"])
def test_a_holder_that_is_gone_and_still_seen_confuses_nothing(
    stage: Stage, level: IsolationLevel, specs: list[Spec]
) -> None:
    gone = stage.make_job("k", [1])
    stage.make_job("running", [1], locked_at="now", locked_by="worker", attempts=1)
    caller = stage.session(level)
    assert len(stage.query("select id from {jobs}", session=caller)) == 2
    assert stage.query("select * from {remove_job}('k')")[0].id == gone

    specs = [spec(payload=[2], job_key="k"), spec(payload=[3], job_key="running"), *specs]
    rows = stage.add_jobs(caller, specs)
    assert len(stage.query("select id from {jobs} where key = 'k'", session=caller)) == 2
    caller.commit()

    assert_answers(rows, specs)
    assert [row.payload for row in rows[:2]] == [[2], [3]]
    stage.assert_not_lost(2, 3)


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
def test_a_lane_that_a_worker_has_taken_since_costs_a_40001_at_most(
    stage: Stage, way: Way, level: IsolationLevel
) -> None:
    """The queue's row is another version then, of which the caller's snapshot knows nothing."""
    stage.make_job("first", [1], queue="lane")
    caller = stage.session(level)
    caller.execute("select 1")
    assert stage.take()

    if not request(stage, way, caller, 2, queue_name="lane"):
        assert request(stage, way, caller, 2, queue_name="lane")
    stage.query("update {queues} set locked_at = null, locked_by = null")
    stage.assert_not_lost(2)
