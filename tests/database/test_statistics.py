"""What is read of the statistics: added up by steps of time and by task."""

from __future__ import annotations

import math
from typing import Any

import pytest
from psycopg.rows import tuple_row

from django_graphile_worker.statements import statistics
from django_graphile_worker.statements.statistics import (
    Cell,
    add_statistics,
    get_busiest_tasks,
    get_oldest_due,
    get_statistics,
    percentile,
)
from tests.database.stage import Stage, spec


def minute_ago(stage: Stage, minutes: int) -> int:
    """A whole minute since 1970, by the database's clock."""
    ((now,),) = stage.query("select extract(epoch from now())::float8")
    return int(now // 60) - minutes


def store(stage: Stage, cells: dict[tuple[int, str], Cell]) -> None:
    with stage.observer.cursor(row_factory=tuple_row) as cursor:
        add_statistics(schema=stage.schema, cells=cells).run(cursor)


def read(stage: Stage, statement: Any) -> Any:
    with stage.observer.cursor(row_factory=tuple_row) as cursor:
        return statement.run(cursor)


def test_nothing_is_read_of_nothing(stage: Stage) -> None:
    assert read(stage, get_statistics(schema=stage.schema, seconds=3_600, step=60)) == []
    assert read(stage, get_busiest_tasks(schema=stage.schema, seconds=3_600)) == []


def test_steps_hold_all_tasks_and_histograms_of_different_lengths_are_added(stage: Stage) -> None:
    now = minute_ago(stage, 0)
    store(
        stage,
        {
            (now, "<b>"): Cell(3, 1, 0, {0: 2, 4: 2}, {1: 4}),
            (now, "b"): Cell(1, 0, 1, {2: 2}, {}),
            (now - 2, "b"): Cell(5, 0, 0, {}, {30: 5}),
            (now - 200, "b"): Cell(100, 0, 0, {}, {}),
        },
    )
    store(stage, {(now, "b"): Cell(1, 0, 0, {0: 1}, {3: 1})})
    then, newest = read(stage, get_statistics(schema=stage.schema, seconds=3_600, step=60))
    assert then[1:5] == ((now - 2) * 60, 5, 0, 0)
    assert newest[1:5] == (now * 60, 5, 1, 1)
    assert newest.waits == [3, 0, 2, 0, 2]
    assert newest.runs == [0, 4, 0, 1, 0]
    assert percentile(then.runs, 0.5) == percentile([0] * 30 + [1], 0.95)

    busiest = read(stage, get_busiest_tasks(schema=stage.schema, seconds=3_600))
    assert [(row.task, row.succeeded, row.retried, row.failed) for row in busiest] == [
        ("b", 7, 0, 1),
        ("<b>", 3, 1, 0),
    ]
    assert len(read(stage, get_busiest_tasks(schema=stage.schema, seconds=3_600, most=1))) == 1


def test_a_step_is_a_quarter_of_an_hour_too(stage: Stage) -> None:
    now = minute_ago(stage, 0)
    store(stage, {(now - n, "a"): Cell(1) for n in range(60)})
    steps = read(stage, get_statistics(schema=stage.schema, seconds=86_400, step=900))
    assert sum(step.succeeded for step in steps) == 60
    assert {step.start % 900 for step in steps} == {0}
    assert 4 <= len(steps) <= 5


def test_of_very_many_rows_times_are_a_sample_and_attempts_are_all_counted(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = minute_ago(stage, 0)
    busy = {(now - 20, f"task {n}"): Cell(1, waits={3: 1}, runs={n % 2: 1}) for n in range(400)}
    store(stage, busy | {(now - 1, "quiet"): Cell(1, waits={9: 1}, runs={9: 1})})
    monkeypatch.setattr(statistics, "MOST_READ", 200)
    then, newest = read(stage, get_statistics(schema=stage.schema, seconds=3_600, step=60))
    assert (then.succeeded, newest.succeeded) == (400, 1)
    # Some hundred of a step that has as many, each for four, and each kind is among them.
    assert 160 < sum(then.waits) == sum(then.runs) < 1_000
    assert sum(then.waits) % 4 == 0
    assert min(then.runs[:2]) > 0
    assert (sum(newest.waits), sum(newest.runs)) == (1, 1)


def test_the_busiest_and_the_newest_are_kept(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    now = minute_ago(stage, 0)
    store(stage, {(now - n, f"task {n}"): Cell(10 - n, runs={n: 1}) for n in range(5)})
    monkeypatch.setattr(statistics, "MOST_STEPS", 2)
    steps = read(stage, get_statistics(schema=stage.schema, seconds=3_600, step=60))
    assert [step.start for step in steps] == [(now - 1) * 60, now * 60]
    busiest = read(stage, get_busiest_tasks(schema=stage.schema, seconds=3_600, most=2))
    assert [task.task for task in busiest] == ["task 0", "task 1"]
    assert [task.start for task in busiest] == [None, None]
    assert [len(task.runs) for task in busiest] == [1, 2]


def test_the_oldest_due_job_is_found_behind_those_of_other_priorities(stage: Stage) -> None:
    assert read(stage, get_oldest_due(schema=stage.schema)).oldest_due is None
    for priority, minutes in ((-3, -60), (0, 5), (0, 1), (2, 90), (2, -5), (7, 30)):
        (job,) = stage.add_jobs(None, [spec(priority=priority)])
        stage.query(
            "update {jobs} set run_at = now() - %s * interval '1 minute' where id = %s",
            [minutes, job.id],
        )
    now, oldest = read(stage, get_oldest_due(schema=stage.schema))
    assert 89 * 60 < now - oldest < 91 * 60
    # No further than it is let: the first two priorities have nothing that is due so long.
    now, oldest = read(stage, get_oldest_due(schema=stage.schema, most=2))
    assert 4 * 60 < now - oldest < 6 * 60
    stage.query("update {jobs} set run_at = '-infinity' where priority = 7")
    stage.query("update {jobs} set run_at = 'infinity' where priority = 2")
    assert read(stage, get_oldest_due(schema=stage.schema)).oldest_due == -math.inf


def test_a_job_that_is_held_or_has_failed_is_not_due(stage: Stage) -> None:
    for state in ("locked_at = now(), locked_by = 'w'", "attempts = max_attempts"):
        (job,) = stage.add_jobs(None, [spec()])
        stage.query("update {jobs} set " + state + " where id = %s", [job.id])
    assert read(stage, get_oldest_due(schema=stage.schema)).oldest_due is None
