"""A task or queue name is collected, by anybody's cleanup, while a call that needs it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from testproject.uncorrected import VARIANTS
from tests.database.pausing import pause
from tests.database.stage import Row, Session, Stage, spec
from tests.database.ways import FEW, WAYS, Way, assert_answers

# What a cleanup of Node does: it deletes what no committed job refers to.
CLEANUP = {
    "tasks": "delete from {tasks} where id not in (select task_id from {jobs})",
    "queues": "delete from {queues} where locked_at is null and id not in"
    " (select job_queue_id from {jobs} where job_queue_id is not null)",
}


class Unkeyed(Way):
    def request(
        self, stage: Stage, session: Session | None, key: str, number: int, **fields: Any
    ) -> Row:
        specs = [spec(payload=[number], **fields), spec("task")]
        rows = (
            stage.add_jobs(session, specs)
            if self.bulk
            else [stage.add_job(session, payload=[number], **fields)]
        )
        assert len(rows) == (len(specs) if self.bulk else 1), f"lost: {rows}"
        return rows[0]


class Deduplicating(Way):
    def request(
        self, stage: Stage, session: Session | None, key: str, number: int, **fields: Any
    ) -> Row:
        return stage.add_job(
            session, payload=[number], job_key=key, job_key_mode="unsafe_dedupe", **fields
        )


# One job without a key waits for nothing, and is not looked after.
ALL = [*FEW, Unkeyed("unkeyed-bulk", bulk=True), Deduplicating("dedupe")]

Check = Callable[[Stage, Way, list[str]], None]


def make_names(stage: Stage) -> None:
    stage.make_name("tasks", "identifier", "task")
    stage.make_name("queues", "queue_name", "lane")


def collect(stage: Stage, names: list[str], session: Session | None = None) -> None:
    for name in names:
        assert stage.query(CLEANUP[name] + " returning id", session=session), name


def assert_unharmed(stage: Stage, row: Row) -> None:
    """The job has its names, and a worker that knows them takes it."""
    stored = stage.query(
        "select task_identifier, queue_name from {schema}.jobs where id = %s", [row.id]
    )
    stage.assert_not_lost(2)
    assert stored == [("task", "lane")], f"lost: the names of the job are {stored}"


def check_collected_between_two_statements(stage: Stage, way: Way, names: list[str]) -> None:
    make_names(stage)
    with pause(stage, "jobs", "before insert or update") as paused:
        caller = paused.session
        call = stage.start(caller, lambda: way.request(stage, caller, "k", 2, queue_name="lane"))
        stage.wait_until_blocked(call, by=paused.keeper)
        collect(stage, names)
        paused.resume()
        row = call.result()
        caller.commit()
    assert_unharmed(stage, row)


def check_collected_while_the_call_waits(stage: Stage, way: Way, names: list[str]) -> None:
    make_names(stage)
    stage.make_job("k", [1], task="other")
    holding, caller = stage.session(), stage.session()
    stage.query("select from {jobs} for update", session=holding)
    call = stage.start(caller, lambda: way.request(stage, caller, "k", 2, queue_name="lane"))
    stage.wait_until_blocked(call, by=holding)
    collect(stage, names)
    holding.rollback()
    row = call.result()
    caller.commit()
    assert_unharmed(stage, row)


NAMES = [["tasks"], ["queues"]]


@pytest.mark.parametrize("names", NAMES, ids="-".join)
@pytest.mark.parametrize("way", ALL, ids=str)
def test_between_two_statements_it_costs_nothing(stage: Stage, way: Way, names: list[str]) -> None:
    check_collected_between_two_statements(stage, way, names)


@pytest.mark.parametrize("names", NAMES, ids="-".join)
@pytest.mark.parametrize("way", FEW, ids=str)
def test_while_the_call_waits_for_a_key_it_costs_nothing(
    stage: Stage, way: Way, names: list[str]
) -> None:
    check_collected_while_the_call_waits(stage, way, names)


@pytest.mark.parametrize("names", NAMES, ids="-".join)
@pytest.mark.parametrize("way", FEW, ids=str)
def test_what_somebody_has_made_anew_meanwhile_is_used(
    stage: Stage, way: Way, names: list[str]
) -> None:
    """Under other ids than those that the call has found."""
    make_names(stage)
    stage.make_job("k", [1], task="other")
    holding, caller = stage.session(), stage.session()
    stage.query("select from {jobs} for update", session=holding)
    call = stage.start(caller, lambda: way.request(stage, caller, "k", 2, queue_name="lane"))
    stage.wait_until_blocked(call, by=holding)
    collect(stage, names)
    make_names(stage)
    holding.rollback()
    row = call.result()
    caller.commit()
    assert row == stage.job(row.id)
    assert_unharmed(stage, row)


@pytest.mark.parametrize("keyed", [False, True], ids=["unkeyed", "keyed"])
@pytest.mark.parametrize("names", NAMES, ids="-".join)
def test_while_the_call_makes_another_name_it_costs_nothing(
    stage: Stage, names: list[str], keyed: bool
) -> None:
    make_names(stage)
    specs = [
        spec("task", [2], queue_name="lane", job_key="k" if keyed else None),
        spec("a new one", [3], queue_name="a new one", job_key="l" if keyed else None),
    ]
    with pause(stage, "tasks", "after insert") as paused:
        caller = paused.session
        call = stage.start(caller, lambda: stage.add_jobs(caller, specs))
        stage.wait_until_blocked(call, by=paused.keeper)
        collect(stage, names)
        paused.resume()
        rows = call.result()
        caller.commit()
    assert_answers(rows, specs)
    assert_unharmed(stage, rows[0])
    assert {row.identifier for row in stage.query("select identifier from {tasks}")} == {
        "task",
        "a new one",
    }


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("names", NAMES, ids="-".join)
@pytest.mark.parametrize("way", [WAYS[0], WAYS[-1]], ids=str)
@pytest.mark.parametrize(
    "check", [check_collected_between_two_statements, check_collected_while_the_call_waits]
)
def test_the_check_catches_the_fault(
    stage: Stage, check: Check, way: Way, names: list[str], variant: str
) -> None:
    stage.use_uncorrected(variant)
    with pytest.raises(AssertionError, match="lost"):
        check(stage, way, names)
