"""One job: defaults, keys and their modes, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from tests.database.stage import Row, Spec, Stage, spec

LATE = datetime(2030, 1, 1, tzinfo=UTC)
BULK = [False, True]


def add(stage: Stage, bulk: bool, each: Spec, session: Any = None) -> Row:
    """The same request by either function."""
    if bulk:
        (row,) = stage.add_jobs(session, [each])
        return row
    return stage.add_job(session, **each)


@pytest.mark.parametrize("bulk", BULK)
@pytest.mark.parametrize("key", [None, "k"])
def test_what_is_left_out_has_its_default(stage: Stage, bulk: bool, key: str | None) -> None:
    session = stage.session()
    row = add(stage, bulk, spec(job_key=key), session)
    (now,) = stage.query("select now() as now", session=session)
    session.commit()
    (stored,) = stage.jobs()
    assert row == stored
    (task,) = stage.query("select id, identifier from {tasks}")
    assert task.identifier == "task"
    assert row[1:] == (
        *(None, task.id, {}, 0, now.now, 0, 25, None, now.now, now.now, key, None, None, 0, None),
        True,
    )


@pytest.mark.parametrize("bulk", BULK)
@pytest.mark.parametrize("key", [None, "k"])
def test_what_is_given_is_stored(stage: Stage, bulk: bool, key: str | None) -> None:
    row = add(
        stage,
        bulk,
        spec("new", {"a": 1}, queue_name="lane", run_at=LATE, max_attempts=3, job_key=key)
        | {"priority": -7, "flags": ["b", "a"]},
    )
    assert (row.payload, row.run_at, row.max_attempts) == ({"a": 1}, LATE, 3)
    assert (row.key, row.priority, row.flags) == (key, -7, {"a": True, "b": True})
    names = stage.query("select task_identifier, queue_name from {schema}.jobs")
    assert names == [("new", "lane")]


@pytest.mark.parametrize("bulk", BULK)
@pytest.mark.parametrize("flags", [None, []])
def test_no_flags_are_null(stage: Stage, bulk: bool, flags: list[str] | None) -> None:
    assert add(stage, bulk, spec(flags=flags)).flags is None


@pytest.mark.parametrize("bulk", BULK)
def test_a_holder_that_is_free_takes_on_everything(stage: Stage, bulk: bool) -> None:
    old = stage.make_job(
        "k", {"a": 1}, task="old", queue="lane", run_at=LATE, attempts=2, max_attempts=9,
        last_error="boom", priority=4, flags='{"x": true}', revision=5,
        created_at=datetime(2020, 1, 1, tzinfo=UTC), updated_at=datetime(2020, 1, 1, tzinfo=UTC),
    )  # fmt: skip
    row = add(stage, bulk, spec("new", {"b": 2}, job_key="k", max_attempts=3, priority=1))
    assert row == stage.job(old)
    assert (row.payload, row.attempts, row.max_attempts, row.last_error) == ({"b": 2}, 0, 3, None)
    assert (row.priority, row.flags, row.job_queue_id, row.revision) == (1, None, None, 6)
    assert row.run_at == row.updated_at > row.created_at
    assert row.created_at.year == 2020


@pytest.mark.parametrize("bulk", BULK)
@pytest.mark.parametrize(("attempts", "kept"), [(0, True), (1, False)])
def test_preserve_run_at_keeps_it_unless_the_job_has_failed(
    stage: Stage, bulk: bool, attempts: int, kept: bool
) -> None:
    stage.make_job("k", run_at=LATE, attempts=attempts)
    new = datetime(2031, 1, 1, tzinfo=UTC)
    if bulk:
        specs = [spec(job_key="k", run_at=new)]
        (row,) = stage.add_jobs(None, specs, preserve_run_at=True)
    else:
        row = stage.add_job(job_key="k", run_at=new, job_key_mode="preserve_run_at")
    assert row.run_at == (LATE if kept else new)


@pytest.mark.parametrize("state", ["available", "running", "failed"])
def test_deduplicating_changes_nothing_but_the_revision(stage: Stage, state: str) -> None:
    columns: dict[str, dict[str, Any]] = {
        "available": {},
        "running": {"locked_at": "now", "locked_by": "worker", "attempts": 1},
        "failed": {"attempts": 25},
    }
    old = stage.make_job("k", [1], run_at=LATE, updated_at=LATE, **columns[state])
    before = stage.job(old)
    row = stage.add_job(
        None, "new", [2], job_key="k", job_key_mode="unsafe_dedupe", queue_name="new", priority=9
    )
    assert row == stage.job(old)
    changed = {name for name in row._fields if getattr(row, name) != getattr(before, name)}
    assert changed == {"revision", "updated_at"}
    assert row.revision == 1
    assert stage.count("jobs") == 1


def test_deduplicating_makes_a_job_where_there_is_none(stage: Stage) -> None:
    row = stage.add_job(None, "new", [1], job_key="k", job_key_mode="unsafe_dedupe", flags=["f"])
    assert (row.key, row.payload, row.revision, row.flags) == ("k", [1], 0, {"f": True})
    assert stage.add_job(payload=[2], job_key_mode="unsafe_dedupe").key is None
    stage.assert_not_lost(1, 2)


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("mode", ["", "REPLACE", "dedupe"])
def test_an_unknown_mode_raises_GWBKM(stage: Stage, mode: str, key: str | None) -> None:
    with pytest.raises(psycopg.Error) as raised:
        stage.add_job(job_key=key, job_key_mode=mode)
    assert raised.value.sqlstate == "GWBKM"
    assert stage.count("jobs") == 0


def test_a_mode_that_is_null_is_the_default(stage: Stage) -> None:
    stage.add_job(payload=[1], job_key="k", job_key_mode=None)
    row = stage.add_job(payload=[2], job_key="k", job_key_mode=None)
    assert (row.payload, row.revision) == ([1, 2], 1)
    stage.query("update {jobs} set locked_at = now(), locked_by = 'worker', attempts = 1")
    assert stage.add_job(payload=[3], job_key="k", job_key_mode=None).payload == [3]


def test_an_identifier_that_is_null_is_told_by_its_position(stage: Stage) -> None:
    with pytest.raises(psycopg.errors.NotNullViolation, match="add_job: identifier"):
        stage.add_job(identifier=None)
    specs = [spec(), spec(job_key="k"), spec(None), spec(None, job_key="l")]
    with pytest.raises(psycopg.errors.NotNullViolation, match=r"specs\[3\].identifier"):
        stage.add_jobs(None, specs)
    assert stage.count("jobs") == 0


@pytest.mark.parametrize("bulk", BULK)
@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"max_attempts": 0}, psycopg.errors.CheckViolation),
        ({"job_key": ""}, psycopg.errors.CheckViolation),
        ({"job_key": "x" * 513}, psycopg.errors.CheckViolation),
        ({"identifier": "x" * 129}, psycopg.errors.CheckViolation),
        ({"queue_name": "x" * 129}, psycopg.errors.CheckViolation),
        ({"priority": 32768}, psycopg.errors.NumericValueOutOfRange),
        ({"max_attempts": 32768}, psycopg.errors.NumericValueOutOfRange),
        ({"flags": [None]}, psycopg.errors.InvalidParameterValue),
    ],
)
def test_what_the_tables_cannot_hold_is_refused(
    stage: Stage, bulk: bool, fields: dict[str, Any], error: type[psycopg.Error]
) -> None:
    with pytest.raises(error):
        add(stage, bulk, spec() | fields)
    assert stage.count("jobs") == 0


@pytest.mark.parametrize("bulk", BULK)
def test_the_longest_names_and_keys_fit(stage: Stage, bulk: bool) -> None:
    key = "ä" * 512
    row = add(stage, bulk, spec("ö" * 128, job_key=key, queue_name="ü" * 128))
    assert row.key == key


def test_keys_are_global_across_tasks(stage: Stage) -> None:
    first = stage.add_job(None, "one", {"a": 1}, job_key="k")
    second = stage.add_job(None, "two", {"b": 2}, job_key="k")
    assert second.id == first.id
    (names,) = stage.query("select task_identifier from {schema}.jobs")
    assert names == ("two",)
