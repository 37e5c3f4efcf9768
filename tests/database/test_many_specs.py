"""A hundred thousand keyed specs in one call, with PostgreSQL's own settings.

What is asserted are the results. The times are printed (`pytest -s`), and measured elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.database.stage import Row, Stage

MANY = 100_000


@pytest.fixture(autouse=True)
def small_again(stage: Stage) -> Iterator[None]:
    """Leave no table behind that is full of dead rows: other tests look at plans."""
    yield
    stage.query("truncate {jobs}, {conflicts}")


def add_many(stage: Stage, key: str, what: str, count: int = MANY) -> Row:
    """Add `count` specs; returns counts of what came back. `key` is an expression over `n`."""
    session = stage.connect()  # without the statement timeout of the others
    begun = time.monotonic()
    (row,) = stage.query(
        "select count(*) as rows, count(distinct job.id) as jobs, count(distinct job.key) as keys,"
        f" count(*) filter (where job.key = (select {key} from (select job.position as n) one))"
        " as in_order, count(*) filter (where job.is_available) as available,"
        " sum(distinct job.id * 4294967296 + job.revision + 1)"
        "   - 4294967296 * sum(distinct job.id) as revisions"
        f" from {{add_jobs}}(array(select row('task', json_build_array(n), null, null, null,"
        f" {key}, null, null)::{{job_spec}} from generate_series(1, %s) as n order by n))"
        " with ordinality as job(id, job_queue_id, task_id, payload, priority, run_at, attempts,"
        " max_attempts, last_error, created_at, updated_at, key, locked_at, locked_by, revision,"
        " flags, is_available, position)",
        [count],
        session,
    )
    print(f"{count} specs, {what}: {time.monotonic() - begun:.1f} s")  # noqa: T201
    session.close()
    return row


def test_new_keys_and_then_all_their_holders_running(stage: Stage) -> None:
    (locks,) = stage.query("show max_locks_per_transaction")
    assert locks.max_locks_per_transaction == "64"

    new = add_many(stage, "'key ' || n", "new keys")
    assert new == (MANY, MANY, MANY, MANY, MANY, MANY)

    stage.query("update {jobs} set locked_at = now(), locked_by = 'worker', attempts = 1")
    again = add_many(stage, "'key ' || n", "all holders running")
    assert again == (MANY, MANY, MANY, MANY, MANY, MANY)
    assert stage.count("jobs") == 2 * MANY
    (superseded,) = stage.query(
        "select count(*) from {jobs} where key is null and attempts = max_attempts"
    )
    assert superseded.count == MANY
    assert stage.count("conflicts") == MANY


@pytest.mark.parametrize("state", ["new", "held", "running"])
def test_ten_shared_keys(stage: Stage, state: str) -> None:
    if state != "new":
        for number in range(10):
            lock = {"locked_at": "now", "attempts": 1} if state == "running" else {}
            stage.make_job(f"key {number}", [0], **lock)

    row = add_many(stage, "'key ' || n %% 10", f"ten keys, {state}")
    revisions = MANY + (10 if state == "held" else 0)
    assert row[:5] == (MANY, 10, 10, MANY, MANY)
    assert row.revisions == revisions
    lengths = stage.query(
        "select json_array_length(payload) as length, (payload ->> -1)::int as last from {jobs}"
        " where key is not null order by key"
    )
    held = 1 if state == "held" else 0
    assert [length.length for length in lengths] == [MANY // 10 + held] * 10
    assert [length.last for length in lengths] == [MANY, *range(MANY - 9, MANY)]
