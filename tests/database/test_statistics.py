"""What is read of the statistics: added up by steps of time and by task."""

from __future__ import annotations

from typing import Any

from psycopg.rows import tuple_row

from django_graphile_worker.statements.statistics import (
    Cell,
    add_statistics,
    get_busiest_tasks,
    get_statistics,
    percentile,
)
from tests.database.stage import Stage


def minute_ago(stage: Stage, minutes: int) -> int:
    """A whole minute since 1970, by the database's clock."""
    ((now,),) = stage.query("select extract(epoch from now())::float8")
    return int(now // 60) - minutes


def store(stage: Stage, cells: dict[tuple[int, str], Cell]) -> None:
    with stage.observer.cursor(row_factory=tuple_row) as cursor:
        add_statistics(schema=stage.schema, cells=cells).run(cursor)


def read(stage: Stage, statement: Any) -> list[Any]:
    with stage.observer.cursor(row_factory=tuple_row) as cursor:
        found: list[Any] = statement.run(cursor)
    return found


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
