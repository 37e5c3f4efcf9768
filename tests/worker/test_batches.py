"""Batch tasks say which items failed; only those remain."""

from __future__ import annotations

import json
from typing import Any

import pytest

from django_graphile_worker.exceptions import BatchFailure
from tests.worker.bench import MakeBench, job

ITEMS = [{"id": 1}, {"id": 2}, {"id": 2}, "three"]


@pytest.mark.parametrize(
    ("result", "left"),
    [
        (None, None),
        ([], None),
        ([{"id": 2}], [{"id": 2}]),
        ([{"id": 2}, {"id": 2}, "three"], [{"id": 2}, {"id": 2}, "three"]),
        (({"id": 1},), [{"id": 1}]),
        (ITEMS, ITEMS),
        # Results, not items.
        ([None, None], None),
        ([{"id": 1}, {"id": 1}], None),
        ([{"id": 3}], None),
        ({"id": 1}, None),
        (7, None),
        ([object()], None),
    ],
)
def test_a_batch_task_returns_the_items_that_failed(
    make_bench: MakeBench, result: Any, left: Any
) -> None:
    outcome = make_bench(task=lambda items: result).outcome_of(job(1, payload=ITEMS))
    if left is None:
        assert (outcome.error, outcome.payload) == (None, None)
    else:
        assert outcome.payload is not None
        assert json.loads(outcome.payload) == left
        assert outcome.error == f"BatchFailure: {len(left)} of 4 items failed"


def test_a_list_returned_for_what_is_no_batch_is_a_result(make_bench: MakeBench) -> None:
    outcome = make_bench(task=lambda a: [a]).outcome_of(job(1, payload={"a": 1}))
    assert (outcome.error, outcome.payload) == (None, None)


def test_a_batch_task_may_raise_with_what_is_left(make_bench: MakeBench) -> None:
    async def task(items: list[Any]) -> None:
        raise BatchFailure([{"id": 1, "tries": 2}], "the others went through")

    outcome = make_bench(task).outcome_of(job(1, payload=ITEMS))
    assert outcome.error == "BatchFailure: 1 of 4 items failed: the others went through"
    assert outcome.payload == '[{"id":1,"tries":2}]'


@pytest.mark.parametrize(
    ("items", "payload", "text"),
    [
        (ITEMS * 2, ITEMS, "8 items failed, of a batch of 4"),
        ([object()], ITEMS, "not JSON serializable"),
        ([float("nan")], ITEMS, "Out of range float"),
        (7, ITEMS, "not iterable"),
        ([1], {}, "not an array"),
    ],
)
def test_items_that_cannot_be_kept_leave_the_whole_batch(
    make_bench: MakeBench, items: Any, payload: Any, text: str
) -> None:
    outcome = make_bench(task=lambda *args: fail_with(BatchFailure(items))).outcome_of(
        job(1, payload=payload)
    )
    assert outcome.payload is None
    assert outcome.error is not None
    assert text in outcome.error


def test_a_batch_of_which_nothing_is_left_has_succeeded(make_bench: MakeBench) -> None:
    outcome = make_bench(task=lambda items: fail_with(BatchFailure([]))).outcome_of(
        job(1, payload=ITEMS)
    )
    assert outcome.error is None


def test_items_of_another_language_go_back_as_they_came(make_bench: MakeBench) -> None:
    stored = '[{"a": "\\u0000 \\ud83e"}, 12345678901234567890]'
    given = job(1)._replace(payload=stored)
    outcome = make_bench(task=lambda items: items).outcome_of(given)
    assert outcome.payload is not None
    assert outcome.payload.isascii()
    assert json.loads(outcome.payload) == json.loads(stored)


def fail_with(error: Exception) -> None:
    raise error
