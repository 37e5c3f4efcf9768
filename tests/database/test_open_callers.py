"""A caller's transaction stays open over a running job: the worker goes on, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from django_graphile_worker.jobs import LockedJob, Outcome
from django_graphile_worker.statements import worker as statements
from django_graphile_worker.statements.worker import Ended
from tests.database.stage import Stage
from tests.database.ways import Way

Finish = Callable[[Stage, LockedJob], Ended]


def complete(stage: Stage, job: LockedJob) -> Ended:
    return stage.run(statements.complete_jobs(schema=stage.schema, worker_id="worker", jobs=[job]))


def fail(stage: Stage, job: LockedJob) -> Ended:
    return stage.run(
        statements.fail_jobs(
            schema=stage.schema, worker_id="worker", outcomes=[Outcome(job, "boom")]
        )
    )


def give_back(stage: Stage, job: LockedJob) -> Ended:
    return stage.run(statements.return_jobs(schema=stage.schema, worker_id="worker", jobs=[job]))


@pytest.fixture
def impatient(stage: Stage) -> Stage:
    """The worker's statements wait for nobody, or fail at once."""
    stage.observer.execute("set lock_timeout = '1s'")
    return stage


@pytest.mark.parametrize("committed", [True, False], ids=["committed", "rolled back"])
@pytest.mark.parametrize("finish", [complete, fail, give_back])
def test_the_worker_goes_on_and_comes_back(
    impatient: Stage, way: Way, finish: Finish, committed: bool
) -> None:
    stage = impatient
    stage.make_job("k", [1])
    (job,) = stage.take()
    caller = stage.session()
    way.request(stage, caller, "k", 2)

    held = finish(stage, job)
    assert (held.count, held.ids) == (0, frozenset())
    other = stage.make_job("other", [5])
    (next_job,) = stage.take()
    assert next_job.id == other
    assert complete(stage, next_job).count == 1

    if committed:
        caller.commit()
    else:
        caller.rollback()
    ended = finish(stage, job)
    assert ended.count == 1
    assert ended.superseded + ended.runs_again == ([job.id] if committed else [])
    left = stage.job(job.id)
    if finish is complete:
        assert left is None
    elif committed:
        assert left.key is None
        # A batch that was never begun runs once more; what has failed does not.
        spare = 1 if finish is give_back else 0
        assert left.max_attempts - left.attempts == spare
    else:
        assert (left.key, left.locked_at) == ("k", None)
        assert left.attempts == (1 if finish is fail else 0)
    if committed:
        assert stage.holder("k").payload == [2]
        stage.assert_not_lost(2)
    else:
        assert stage.count("conflicts") == 0


@pytest.mark.parametrize("committed", [True, False], ids=["committed", "rolled back"])
def test_a_node_worker_that_completes_one_by_one_waits_and_loses_nothing(
    stage: Stage, way: Way, committed: bool
) -> None:
    old = stage.make_job("k", [1], queue="lane")
    (job,) = stage.take()
    caller, node = stage.session(), stage.session()
    node.autocommit = True
    way.request(stage, caller, "k", 2)

    def complete_one() -> None:
        stage.query(
            "with done as (delete from {jobs} where id = %s returning *)"
            " update {queues} as queue set locked_by = null, locked_at = null"
            " from done where queue.id = done.job_queue_id and queue.locked_by = 'worker'",
            [job.id],
            node,
        )

    call = stage.start(node, complete_one)
    stage.wait_until_blocked(call, by=caller)
    if committed:
        caller.commit()
    else:
        caller.rollback()
    call.result()
    assert stage.job(old) is None
    if committed:
        stage.assert_not_lost(2)
    else:
        assert stage.count("jobs") == 0


def test_a_rollback_to_a_savepoint_undoes_the_call_and_lets_go(stage: Stage, way: Way) -> None:
    stage.make_job("k", [1], locked_at="now", locked_by="worker", attempts=1)
    before = stage.jobs()
    caller = stage.session()
    caller.execute("select 1")
    caller.execute("savepoint here")
    way.request(stage, caller, "k", 2)
    caller.execute("rollback to savepoint here")

    stage.query("set lock_timeout = '1s'")
    stage.query("select id from {jobs} where key = 'k' for update")
    caller.commit()
    assert stage.jobs() == before
    assert stage.count("conflicts") == 0


def test_a_savepoint_that_is_released_keeps_the_holder_locked(stage: Stage, way: Way) -> None:
    stage.make_job("k", [1])
    caller, taker = stage.session(), stage.session()
    caller.execute("select 1")  # or the block below would be the whole transaction
    with caller.transaction():
        way.request(stage, caller, "k", 2)
    assert stage.take(taker) == []
    caller.commit()
    stage.assert_not_lost(1, 2)


@pytest.mark.parametrize("bulk", [False, True], ids=["add_job", "add_jobs"])
def test_each_statement_has_a_fresh_snapshot_also_within_a_stable_function(
    stage: Stage, bulk: bool
) -> None:
    stage.make_job("k", [1])
    worker, caller = stage.session(), stage.session(application_name="with a function")
    assert stage.take(worker)
    call_text = (
        "select (job).id from (select {add_jobs}(array[row('task', '[2]', null, null, null, 'k',"
        " null, null)::{job_spec}]) as job) as one"
        if bulk
        else "select ({add_job}('task', '[2]', job_key => 'k')).id"
    )
    caller.execute(
        stage.sql(
            "create function pg_temp.wrapped() returns bigint language plpgsql stable as"
            f" $$ begin return ({call_text}); end $$"
        )
    )
    call = stage.start(
        caller, lambda: stage.query("select pg_temp.wrapped() as id", session=caller)
    )
    stage.wait_until_blocked(call, by=worker)
    worker.commit()
    (row,) = call.result()
    caller.commit()
    assert stage.holder("k").id == row.id
    stage.assert_not_lost(2)
