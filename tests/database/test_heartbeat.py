"""Who is alive: heartbeats and sweeps, in each order of events.

What shows that a check is made under a lock is run also on a careless form of the statement, where
it has to fail.
"""

from __future__ import annotations

from functools import partial

import pytest

from tests.database.lives import WATCH, Change, Lives, shown_by
from tests.database.pausing import pause
from tests.database.stage import Stage

A = "django:test:5:a"
B = "django:test:6:b"


@pytest.fixture
def lives(stage: Stage) -> Lives:
    lives = Lives(stage)
    lives.born(A, B, WATCH)
    return lives


def silence(stage: Stage, name: str = A) -> None:
    stage.query(
        "update {workers} set last_beat_at = now() - interval '31 s' where worker_id = %s", [name]
    )


def forms(*changes: Change) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "change", [None, *changes], ids=lambda c: "careless" if c else ""
    )


def test_a_heartbeat_that_comes_first_keeps_the_worker_alive(stage: Stage, lives: Lives) -> None:
    silence(stage)
    session = stage.session()
    assert lives.beat(A, session=session) == {A}
    assert lives.sweep().workers == ()
    session.commit()
    assert lives.sweep().workers == ()


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_heartbeat_that_comes_later_waits_for_the_verdict(
    stage: Stage, lives: Lives, end: str
) -> None:
    silence(stage)
    watch, mine = stage.session(), stage.session()
    assert lives.rescue(by=WATCH, session=watch).workers == (A,)
    call = stage.start(mine, partial(lives.beat, A, session=mine))
    stage.wait_until_blocked(call, by=watch)
    getattr(watch, end)()
    assert call.result() == (set() if end == "commit" else {A})


@forms(Change("rescue", {"  for update skip locked\n),\ndeclared": "),\ndeclared"}))
def test_silence_is_looked_at_again_once_the_row_is_locked(
    stage: Stage, lives: Lives, change: Change | None
) -> None:
    silence(stage)
    job_id = stage.make_job(queue="lane")
    lives.take_one(A)
    lives.careless = change
    with pause(stage, "workers", "before update") as held:
        call = stage.start(held.session, partial(lives.rescue, by=WATCH, session=held.session))
        stage.wait_until_blocked(call, by=held.keeper)
        assert lives.beat(A) == {A}
        held.resume()
        rescued = call.result()
        held.session.commit()
    with shown_by(change):
        assert rescued.workers == ()
        assert lives.row(A).dead_at is None
        assert stage.job(job_id).locked_by == A
        assert lives.queue("lane").locked_by == A


def test_several_heartbeats_in_one_wait_for_no_other(stage: Stage, lives: Lives) -> None:
    # A supervisor beats for its children, which beat for themselves as well.
    parent, child = stage.session(), stage.session()
    assert lives.beat(A, session=child) == {A}
    call = stage.start(parent, partial(lives.beat, A, B, session=parent))
    stage.wait_until_blocked(call, by=child)
    child.commit()
    assert call.result() == {A, B}


def test_a_dead_name_is_void(stage: Stage, lives: Lives) -> None:
    lives.rescue(A)
    stage.make_job()
    assert lives.beat(A, B) == {B}
    assert not lives.register(A)
    assert lives.take(A) == []
    assert lives.take(B) != []


# Two that sweep


RECHECK = (
    "    and job.locked_by is not distinct from locks.locked_by\n"
    "    and job.locked_at = locks.locked_at\n"
    "    and job.key is not distinct from locks.key\n"
    "    and job.attempts = locks.attempts\n"
)


@forms(Change("rescue", {RECHECK: ""}))
def test_a_slow_sweep_frees_nothing_that_was_freed_and_taken_meanwhile(
    stage: Stage, lives: Lives, change: Change | None
) -> None:
    job_id = stage.make_job(queue="lane")
    lives.take_one(A)
    stage.query("update {workers} set dead_at = now() where worker_id = %s", [A])
    lives.careless = change
    with pause(stage, "workers", "before update") as held:
        sweep = partial(lives.rescue, by=WATCH, session=held.session)
        call = stage.start(held.session, sweep)
        stage.wait_until_blocked(call, by=held.keeper)
        lives.careless = None
        assert lives.sweep().jobs == 1
        stage.query("update {jobs} set run_at = now()")
        lives.take_one(B)
        before = (stage.job(job_id), lives.queue("lane"), len(lives.errors()))
        held.resume()
        rescued = call.result()
        held.session.commit()
    with shown_by(change):
        assert not rescued
        assert (stage.job(job_id), lives.queue("lane"), len(lives.errors())) == before


def test_two_sweeps_free_each_lock_once(stage: Stage, lives: Lives) -> None:
    stage.make_job(queue="lane")
    stage.make_job()
    lives.take(A)
    first, second = stage.session(), stage.session()
    silence(stage)
    one = lives.rescue(by=WATCH, session=first)
    other = lives.rescue(by=B, session=second)
    assert (one.jobs, one.queues, one.workers) == (2, 1, (A,))
    assert not other
    first.commit()
    second.commit()
    assert len(lives.errors()) == 2


def test_what_is_superseded_during_the_sweep_is_left_for_the_next(
    stage: Stage, lives: Lives
) -> None:
    batch = stage.make_job("k", [1])
    lives.take_one(A)
    with pause(stage, "workers", "before update") as held:
        call = stage.start(held.session, partial(lives.rescue, A, session=held.session))
        stage.wait_until_blocked(call, by=held.keeper)
        stage.add_job(payload=[2], job_key="k")
        held.resume()
        assert call.result().jobs == 0
        held.session.commit()

    # The record of it can be seen now: the batch runs once more.
    assert lives.sweep().jobs == 1
    assert stage.job(batch).is_available
    (record,) = stage.query("select * from {conflicts}")
    assert record.outcome == "returned"


# Who may judge


def test_after_an_outage_nobody_is_declared_dead_for_his_silence(
    stage: Stage, lives: Lives
) -> None:
    # The database was away for a minute; WATCH is the first to come back.
    stage.query("update {workers} set last_beat_at = now() - interval '60 s'")
    assert lives.sweep().workers == ()
    assert lives.beat(WATCH) == {WATCH}
    assert lives.sweep().workers == ()
    assert lives.beat(A) == {A}
    # B does not come back. Half a minute later that may be said.
    stage.query(
        "update {workers} set watching_since = now() - interval '31 s' where worker_id = %s",
        [WATCH],
    )
    assert lives.sweep().workers == (B,)


def test_a_watch_lasts_as_long_as_its_heartbeat_is_regular(stage: Stage, lives: Lives) -> None:
    before = lives.row(WATCH).watching_since
    for seconds, goes_on in ((9, True), (11, False)):
        stage.query("update {workers} set last_beat_at = now() - %s * interval '1 s'", [seconds])
        lives.beat(WATCH)
        assert (lives.row(WATCH).watching_since == before) is goes_on


def test_who_beats_slowly_judges_slowly(stage: Stage, lives: Lives) -> None:
    # With a heartbeat of 60 s it would not notice an outage of 100 s.
    stage.query(
        "update {workers} set heartbeat = '60 s', stale_after = '10 min' where worker_id = %s",
        [WATCH],
    )
    stage.query(
        "update {workers} set last_beat_at = now() - interval '179 s' where worker_id = %s", [A]
    )
    assert lives.sweep().workers == ()
    stage.query(
        "update {workers} set last_beat_at = now() - interval '181 s' where worker_id = %s", [A]
    )
    assert lives.sweep().workers == (A,)
