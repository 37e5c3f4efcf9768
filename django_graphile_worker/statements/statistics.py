"""What workers have run, added up by minute and task: written by them, read by the overview.

Times are kept as histograms. Bucket 0 holds what took at most `BOUNDS[0]` seconds, bucket n what
took more than `BOUNDS[n - 1]` and at most `BOUNDS[n]`, and the last all that took longer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from django_graphile_worker.sql import loader
from django_graphile_worker.statements.base import Statement

# From half a millisecond to two days and a half; a percentile is off by 40 % at most.
BOUNDS = [0.0005 * 1.4**n for n in range(60)]

# How many rows are kept whatever their age: 31 days of four tasks that never rest, say.
KEPT_ROWS = 200_000
MOST_TRIMMED = 5_000

# Of how many rows the histograms are added up for one look, and how many steps of time there are.
MOST_READ = 2_000
MOST_STEPS = 1_500

# How many priorities are looked at for the job that has been due longest. There are 65,536.
MOST_PRIORITIES = 1_000


@dataclass(slots=True)
class Cell:
    """What one task has done in one minute; `waits` and `runs` count by the number of a bucket."""

    succeeded: int = 0
    retried: int = 0
    failed: int = 0
    waits: dict[int, int] = field(default_factory=dict)
    runs: dict[int, int] = field(default_factory=dict)


class Totals(NamedTuple):
    """What was run of a task, or from `start` (seconds since 1970) on until the next step.

    `waits` and `runs` are histograms, for `percentile`; of a busy queue they are of a sample.
    """

    task: str
    start: float | None
    succeeded: int
    retried: int
    failed: int
    waits: list[int]
    runs: list[int]


def add_statistics(*, schema: str, cells: Mapping[tuple[int, str], Cell]) -> Statement[int]:
    """Add to what is stored; keys are minutes since 1970 and tasks. Returns how many rows.

    Not to be repeated where an answer was lost, or it may count twice.
    """
    rows = [
        {
            "minute": minute,
            "task": task,
            "succeeded": cell.succeeded,
            "retried": cell.retried,
            "failed": cell.failed,
            "waits": _array(cell.waits),
            "runs": _array(cell.runs),
        }
        for (minute, task), cell in cells.items()
    ]
    return Statement(
        "add_statistics",
        loader.query("add_statistics", schema),
        {"rows": json.dumps(rows, separators=(",", ":"))},
        len,
    )


def trim_statistics(
    *, schema: str, seconds: float, keep: int = KEPT_ROWS, most: int = MOST_TRIMMED
) -> Statement[int]:
    """Delete what is older than `seconds`, or beyond the newest `keep` rows; returns how many.

    At most `most` at a time.
    """
    return Statement(
        "trim_statistics",
        loader.query("trim_statistics", schema),
        {"seconds": float(seconds), "keep": keep, "most": most},
        lambda rows: int(rows[0][0]),
    )


def get_statistics(*, schema: str, seconds: float, step: float) -> Statement[list[Totals]]:
    """Add up the last `seconds` by steps of `step` seconds, the oldest first; none is empty.

    The newest 1,500 steps, if there are more.
    """
    return _get_statistics(schema, seconds, step, by_task=False, rows=MOST_STEPS)


def get_busiest_tasks(*, schema: str, seconds: float, most: int = 10) -> Statement[list[Totals]]:
    """Add up the last `seconds` by task, the one with the most attempts first."""
    return _get_statistics(schema, seconds, 60, by_task=True, rows=most)


class Line(NamedTuple):
    """When it was looked at, and since when the job is due that is so longest; since 1970.

    `None` where none is due, and `-inf` where one always was.
    """

    now: float
    oldest_due: float | None


def get_oldest_due(*, schema: str, most: int = MOST_PRIORITIES) -> Statement[Line]:
    """Look for the job that has been due longest, held up in a named queue or not.

    Among those of the `most` priorities that are served first.
    """
    text = loader.query("get_oldest_due", schema)
    return Statement("get_oldest_due", text, {"most": most}, lambda rows: Line(*rows[0]))


def percentile(histogram: Sequence[int], part: float) -> float | None:
    """Return the seconds that `part` (0..1) of the values did not exceed; `None` without values.

    It is the upper bound of the bucket that holds the value, so never too small, and up to 1.4
    times too large; of the last bucket, which has none, it is the lower bound.
    """
    total = sum(histogram)
    if not total:
        return None
    wanted = max(1, -int(-part * total // 1))
    for bucket, count in enumerate(histogram):
        wanted -= count
        if wanted <= 0:
            return BOUNDS[min(bucket, len(BOUNDS) - 1)]
    raise AssertionError("a histogram with a negative count")


def _get_statistics(
    schema: str, seconds: float, step: float, *, by_task: bool, rows: int
) -> Statement[list[Totals]]:
    return Statement(
        "get_statistics",
        loader.query("get_statistics", schema),
        {
            "seconds": float(seconds),
            "step": float(step),
            "by_task": by_task,
            "most": MOST_READ,
            "rows": rows,
        },
        lambda found: [Totals(*row) for row in found],
    )


def _array(histogram: Mapping[int, int]) -> list[int]:
    return [histogram.get(bucket, 0) for bucket in range(max(histogram, default=-1) + 1)]
