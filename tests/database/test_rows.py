"""`add_jobs` returns one row for each spec, in their order, whatever the specs have in common."""

from __future__ import annotations

import random

import pytest

from tests.database.stage import Spec, Stage, spec
from tests.database.ways import assert_answers


def mixed(count: int) -> list[Spec]:
    """Specs of which a third have no key, a third one of their own, and a third share five."""
    keys = [None, "own {}", "shared {}"]
    specs = []
    for number in range(count):
        key = keys[number % 3]
        specs.append(
            spec(
                payload={"n": number},
                job_key=key and key.format(number if "own" in key else number % 5),
            )
        )
    random.shuffle(specs)
    return specs


def test_a_thousand_mixed_specs_have_their_rows_in_order(stage: Stage) -> None:
    specs = mixed(999)
    rows = stage.add_jobs(None, specs)

    assert_answers(rows, specs)
    stored = {job.id: job for job in stage.jobs()}
    assert all(row == stored[row.id] for row in rows)
    last = {each["job_key"]: each["payload"] for each in specs}
    for row, each in zip(rows, specs, strict=True):
        wanted = each["payload"] if row.key is None else last[row.key]
        assert row.payload == {"n": int(wanted.partition(":")[2].strip(" }"))}
    assert len(stored) == 333 + 333 + 5


def test_each_spec_counts_as_a_revision(stage: Stage) -> None:
    specs = mixed(300)
    for round_ in (1, 2, 3):
        stage.add_jobs(None, specs)
        keyed = [job for job in stage.jobs() if job.key is not None]
        # The first spec of a key makes revision 0.
        assert sum(job.revision + 1 for job in keyed) == 200 * round_

    stage.query("update {jobs} set locked_at = now(), locked_by = 'worker', attempts = 1")
    rows = stage.add_jobs(None, specs)
    successors = {row.id: row for row in rows if row.key is not None}
    assert sum(row.revision + 1 for row in successors.values()) == 200


def test_jobs_without_key_get_their_ids_in_the_order_of_the_specs(stage: Stage) -> None:
    rows = stage.add_jobs(None, [spec(payload=[number]) for number in range(500)])
    assert [row.payload for row in rows] == [[number] for number in range(500)]
    assert [row.id for row in rows] == sorted(row.id for row in rows)


@pytest.mark.parametrize("array", ["'{{}}'", "null", "array[]"])
def test_no_specs_have_no_rows(stage: Stage, array: str) -> None:
    assert stage.query(f"select * from {{add_jobs}}({array}::{{job_spec}}[])") == []


def test_an_array_may_begin_anywhere(stage: Stage) -> None:
    literal = '[7:8]={"(task,[1],,,,k,,)","(task,[2],,,,,,)"}'
    rows = stage.query("select * from {add_jobs}(%s::{job_spec}[])", [literal])
    assert [row.payload for row in rows] == [[1], [2]]
