"""Batches of one key are joined as text: what is in them passes through unread and unchanged."""

from __future__ import annotations

import re

import pytest

from tests.database.stage import Stage, spec

# What `json` stores and `jsonb`, or a client that parses, would refuse, change or lose.
TRICKY = {
    "a NUL escape": r'"\u0000"',
    "a NUL escape as a name": r'{"\u0000": 1}',
    "half a surrogate pair": r'"\ud83e"',
    "a number beyond numeric": "1e400000",
    "a number beyond double": "1e400",
    "digits beyond double": "0.1000000000000000055511151231257827021181583404541015625",
    "names given twice": '{"b": 1, "a": 2, "b": 3}',
    "white space within": '{ "a" :\t[ 1 ,\n2 ] }',
    "brackets in a string": '"[,]"',
    "a negative zero": "-0",
}


def stored(stage: Stage) -> str:
    (row,) = stage.query("select payload::text as text from {jobs} where key = 'k'")
    return str(row.text)


def assert_items(stage: Stage, *items: str) -> None:
    """The items stand there byte for byte; white space between them is nobody's."""
    pattern = r"\s*\[\s*" + r"\s*,\s*".join(map(re.escape, items)) + r"\s*\]\s*"
    assert re.fullmatch(pattern, stored(stage)), stored(stage)


def add(stage: Stage, bulk: bool, payload: str) -> None:
    """Add it; its payload must not be read by the client either."""
    if bulk:
        text = (
            "select id from {add_jobs}(array[row('task', %s, null, null, null, 'k', null, null)]"
            "::{job_spec}[])"
        )
    else:
        text = "select id from {add_job}('task', %s::json, job_key => 'k')"
    stage.query(text, [payload])


@pytest.mark.parametrize("bulk", [False, True])
@pytest.mark.parametrize("name", TRICKY)
def test_it_passes_byte_for_byte(stage: Stage, name: str, bulk: bool) -> None:
    item = TRICKY[name]
    add(stage, bulk, f"[{item}]")
    add(stage, bulk, f" [ {item},{item} ]\n")
    assert_items(stage, item, item, item)
    add(stage, bulk, "[1]")
    assert_items(stage, item, item, item, "1")


@pytest.mark.parametrize("name", TRICKY)
def test_it_passes_through_folding_too(stage: Stage, name: str) -> None:
    item = TRICKY[name]
    value = "row('task', %s, null, null, null, 'k', null, null)"
    stage.query(
        f"select id from {{add_jobs}}(array[{value}, {value}, {value}]::{{job_spec}}[])",
        [f"[{item}]", f"\t[ {item} ] ", "[]"],
    )
    assert_items(stage, item, item)


@pytest.mark.parametrize("bulk", [False, True])
@pytest.mark.parametrize(
    ("older", "newer", "merged"),
    [
        ("[1]", "[2]", "[1,2]"),
        ("[]", "[2]", "[2]"),
        ("[ ]", "[2]", "[2]"),
        ("[1]", "[]", "[1]"),
        ("[1]", "[\n]", "[1]"),
        ("[]", "[ ]", "[ ]"),
        ("[[1]]", "[[2]]", "[[1],[2]]"),
        ("[1]", '{"a": 2}', '{"a": 2}'),
        ('{"a": 1}', "[2]", "[2]"),
        ('{"a": 1}', '{"b": 2}', '{"b": 2}'),
        ("[1]", "null", "null"),
        ('"[1]"', "[2]", "[2]"),
    ],
)
def test_two_arrays_are_joined_and_otherwise_the_newer_wins(
    stage: Stage, older: str, newer: str, merged: str, bulk: bool
) -> None:
    add(stage, bulk, older)
    add(stage, bulk, newer)
    assert stored(stage) == merged


@pytest.mark.parametrize(
    ("payloads", "merged"),
    [
        (['{"a": 1}', "[2]", "[3]"], "[2,3]"),
        (["[1]", '{"a": 1}', "[3]"], "[3]"),
        (["[1]", "[2]", '{"a": 1}'], '{"a": 1}'),
        (["[1]", None, "[3]"], "[3]"),
        (["[1]", "[2]", None], "{}"),
    ],
)
@pytest.mark.parametrize("before", [None, "[0]"])
def test_within_one_call_a_batch_begins_anew_after_what_is_none(
    stage: Stage, payloads: list[str | None], merged: str, before: str | None
) -> None:
    if before:
        stage.make_job("k", before)
    stage.add_jobs(None, [spec(payload=each, job_key="k") for each in payloads])
    assert stored(stage) == merged


def test_an_array_is_not_joined_to_a_running_one(stage: Stage) -> None:
    stage.make_job("k", "[1]", locked_at="now", locked_by="worker", attempts=1)
    add(stage, False, "[2]")
    assert stored(stage) == "[2]"
