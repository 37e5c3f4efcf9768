"""A user's trigger keeps rows from being stored: the call ends, and says which key has none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from tests.database.stage import Stage, spec
from tests.database.ways import WAYS, Way, assert_answers

NO_ROW = "GWBNR"


@contextmanager
def trigger(stage: Stage, event: str, body: str, table: str = "jobs") -> Iterator[None]:
    stage.query(
        f"create function {{schema}}.test_trigger() returns trigger language plpgsql as"
        f" $$ begin {body} end $$;"
        f"create trigger test_trigger {event} on {{{table}}}"
        " for each row execute function {schema}.test_trigger()"
    )
    try:
        yield
    finally:
        stage.query("drop function {schema}.test_trigger() cascade")


def assert_refused(call: Callable[[], Any], text: str) -> None:
    with pytest.raises(psycopg.Error) as raised:
        call()
    assert raised.value.sqlstate == NO_ROW, raised.value
    assert text in str(raised.value)


def test_an_insert_that_is_suppressed_is_refused_by_key(stage: Stage, way: Way) -> None:
    with trigger(stage, "before insert", "return null;"):
        assert_refused(lambda: way.request(stage, None, "the key", 1), "'the key")
    assert stage.jobs() == []


def test_an_update_that_is_suppressed_is_refused_by_key(stage: Stage, way: Way) -> None:
    stage.make_job("the key", [1])
    before = stage.jobs()
    with trigger(stage, "before update", "return null;"):
        assert_refused(lambda: way.request(stage, None, "the key", 2), "'the key")
    assert stage.jobs() == before


def test_a_superseding_that_is_suppressed_is_refused_by_key(stage: Stage, way: Way) -> None:
    stage.make_job("the key", [1], locked_at="now", locked_by="worker")
    before = stage.jobs()
    with trigger(stage, "before update", "return null;"):
        assert_refused(lambda: way.request(stage, None, "the key", 2), "'the key")
    assert stage.jobs() == before
    assert stage.count("conflicts") == 0


@pytest.mark.parametrize("event", ["before insert", "before update"])
def test_deduplicating_is_refused_by_key_too(stage: Stage, event: str) -> None:
    if event == "before update":
        stage.make_job("the key", [1])
    with trigger(stage, event, "return null;"):
        assert_refused(
            lambda: stage.add_job(job_key="the key", job_key_mode="unsafe_dedupe"), "'the key'"
        )


@pytest.mark.parametrize("bulk", [False, True])
def test_without_a_key_it_is_refused_as_well(stage: Stage, bulk: bool) -> None:
    with trigger(stage, "before insert", "return null;"):
        if bulk:
            assert_refused(lambda: stage.add_jobs(None, [spec(), spec()]), "0 of 2 specs")
        else:
            assert_refused(lambda: stage.add_job(), "0 of 1 specs")


@pytest.mark.parametrize("others", [[], [spec()]], ids=["alone", "among others"])
def test_one_of_many_is_enough_to_refuse_them_all(stage: Stage, others: list[Any]) -> None:
    specs = [spec(job_key=key) for key in "cab"] + others
    with trigger(stage, "before insert", "if new.key = 'a' then return null; end if; return new;"):
        assert_refused(lambda: stage.add_jobs(None, specs), "1 of")
        assert_refused(lambda: stage.add_jobs(None, specs), "'a'")
    assert stage.jobs() == []


@pytest.mark.parametrize("others", [[], [spec()]], ids=["alone", "among others"])
@pytest.mark.parametrize(
    ("event", "body"),
    [
        ("before insert", "new.key = upper(new.key); return new;"),
        ("after insert", "delete from {jobs} where id = new.id; return null;"),
    ],
    ids=["changes the key", "deletes the row"],
)
def test_a_row_that_a_trigger_takes_away_afterwards_is_missed(
    stage: Stage, event: str, body: str, others: list[Any]
) -> None:
    specs = [spec(job_key="a"), *others]
    with trigger(stage, event, body):
        assert_refused(lambda: stage.add_jobs(None, specs), "no row")
    assert stage.jobs() == []


def test_names_that_vanish_as_soon_as_they_are_made_are_given_up(stage: Stage, way: Way) -> None:
    body = "delete from {tasks} where id = new.id; return null;"
    with trigger(stage, "after insert", body, "tasks"):
        assert_refused(lambda: way.request(stage, None, "the key", 1), "'the key")
    assert stage.jobs() == []


def test_a_trigger_that_only_changes_rows_does_no_harm(stage: Stage, way: Way) -> None:
    with trigger(stage, "before insert or update", "new.priority = 7; return new;"):
        assert way.request(stage, None, "k", 1).priority == 7


def test_the_fault_says_nothing_when_a_row_is_suppressed(stage: Stage) -> None:
    stage.use_uncorrected("no_row")
    with trigger(stage, "before insert", "return null;"):
        for way in (WAYS[0], WAYS[2]):
            with pytest.raises(AssertionError, match="lost"):
                way.request(stage, None, "k", 1)
        rows = stage.add_jobs(None, [spec(job_key="k")])
        with pytest.raises(AssertionError, match="lost"):
            assert_answers(rows, [spec(job_key="k")])
