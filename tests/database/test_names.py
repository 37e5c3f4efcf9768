"""Task and queue names: made once, in one order, and without a cost to names that are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from testproject.uncorrected import VARIANTS
from tests.database.pausing import pause
from tests.database.stage import Stage, spec
from tests.database.ways import WAYS, Way

Check = Callable[[Stage, Way], None]

# In byte order; every language would put them otherwise.
NAMES = ["Z", "_", "a", "b", "ä"]


def sequences(stage: Stage) -> list[int]:
    """Where the identity columns of tasks and of queues stand."""
    return [
        stage.query("select last_value from {schema}." + name)[0].last_value
        for name in ("tasks_id_seq", "job_queues_id_seq")
    ]


def check_known_names_cost_no_identity_value(stage: Stage, way: Way) -> None:
    def calls() -> None:
        way.request(stage, None, "k", 1, queue_name="lane")
        way.request(stage, None, "k", 2, queue_name="lane")
        stage.query("update {jobs} set locked_at = now(), locked_by = 'worker', attempts = 1")
        way.request(stage, None, "k", 3, queue_name="lane")
        stage.add_job(queue_name="lane")
        stage.add_jobs(None, [spec(queue_name="lane"), spec()])
        stage.add_job(job_key="k", job_key_mode="unsafe_dedupe", queue_name="lane")

    calls()
    before = sequences(stage)
    calls()
    assert sequences(stage) == before, "identity values were burned"


def test_known_names_cost_no_identity_value(stage: Stage, way: Way) -> None:
    check_known_names_cost_no_identity_value(stage, way)


def test_a_new_name_costs_one(stage: Stage) -> None:
    stage.add_job(queue_name="lane")
    before = sequences(stage)
    stage.add_jobs(None, [spec("new", queue_name="new") for _ in range(3)])
    assert sequences(stage) == [value + 1 for value in before]


def check_names_are_made_in_byte_order(stage: Stage, way: Way) -> None:
    shuffled = ["b", "Z", "ä", "a", "_", "b"]
    stage.add_jobs(None, [spec(name, queue_name=name) for name in shuffled])
    tasks = [row.identifier for row in stage.query("select identifier from {tasks} order by id")]
    queues = [row.queue_name for row in stage.query("select queue_name from {queues} order by id")]
    assert tasks == queues == NAMES, "the order of names"


def test_names_are_made_in_byte_order(stage: Stage) -> None:
    check_names_are_made_in_byte_order(stage, WAYS[2])


def check_first_uses_in_opposite_orders(stage: Stage, way: Way) -> None:
    """One call has made its first name and not yet its second when the other begins."""

    def add(names: list[str]) -> Callable[[psycopg.Connection[Any]], object]:
        return lambda session: stage.add_jobs(session, [spec(name) for name in names])

    with pause(stage, "tasks", "after insert", "row") as paused:
        other = stage.session()
        forwards, backwards = add(["a", "b"]), add(["b", "a"])
        first = stage.start(paused.session, lambda: backwards(paused.session))
        stage.wait_until_blocked(first, by=paused.keeper)
        second = stage.start(other, lambda: forwards(other))
        stage.wait_until_blocked(second, by=paused.session)
        paused.resume()
        first.result()
        paused.session.commit()
        second.result()
        other.commit()
    assert stage.count("tasks") == 2
    assert stage.count("jobs") == 4


def test_first_uses_in_opposite_orders(stage: Stage) -> None:
    check_first_uses_in_opposite_orders(stage, WAYS[2])


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    ("check", "message"),
    [
        (check_known_names_cost_no_identity_value, "burned"),
        (check_names_are_made_in_byte_order, "the order of names"),
    ],
)
def test_the_check_catches_the_fault(
    stage: Stage, check: Check, message: str, variant: str
) -> None:
    stage.use_uncorrected(variant)
    with pytest.raises(AssertionError, match=message):
        check(stage, WAYS[2])


def test_tasks_are_made_before_queues(stage: Stage) -> None:
    with pause(stage, "queues", "before insert") as paused:
        other = stage.session()
        first = stage.start(
            paused.session, lambda: stage.add_job(paused.session, "new", queue_name="new")
        )
        stage.wait_until_blocked(first, by=paused.keeper)
        second = stage.start(other, lambda: stage.add_job(other, "new", queue_name="new"))
        stage.wait_until_blocked(second, by=paused.session)
        paused.resume()
        first.result()
        paused.session.commit()
        second.result()
        other.commit()
    assert (stage.count("tasks"), stage.count("queues"), stage.count("jobs")) == (1, 1, 2)


@pytest.mark.parametrize("committed", [True, False], ids=["committed", "rolled back"])
def test_two_first_uses_of_a_name(stage: Stage, way: Way, committed: bool) -> None:
    first, second = stage.session(), stage.session()
    way.request(stage, first, "a", 1, identifier="new", queue_name="new")
    call = stage.start(
        second, lambda: way.request(stage, second, "b", 2, identifier="new", queue_name="new")
    )
    stage.wait_until_blocked(call, by=first)
    if committed:
        first.commit()
    else:
        first.rollback()
    call.result()
    second.commit()

    names = stage.query("select task_identifier, queue_name from {schema}.jobs where key = 'b'")
    assert names == [("new", "new")]
    assert len(stage.query("select id from {tasks} where identifier = 'new'")) == 1
    assert stage.count("queues") == 1
    stage.query("update {jobs} set job_queue_id = null")
    stage.assert_not_lost(*([1, 2] if committed else [2]))


def test_a_call_waits_for_no_first_use_of_other_names(stage: Stage) -> None:
    stage.add_job(identifier="known", queue_name="known")
    first = stage.session()
    stage.add_job(first, "new", queue_name="new")
    other = stage.session(options="-c lock_timeout=1s")
    stage.add_job(other, "known", queue_name="known", job_key="k")
    stage.add_jobs(other, [spec("known", queue_name="known"), spec("newer")])
    other.commit()


def test_a_second_use_waits_for_nobody(stage: Stage) -> None:
    """Also while a worker has the queue's row, and while others use the name."""
    stage.add_job(queue_name="lane")
    worker, user = stage.session(), stage.session()
    assert stage.take(worker)
    stage.add_job(user, queue_name="lane")
    other = stage.session(options="-c lock_timeout=1s")
    stage.add_job(other, queue_name="lane", job_key="k")
    stage.add_jobs(other, [spec(queue_name="lane"), spec(queue_name="lane", job_key="l")])
    other.commit()
