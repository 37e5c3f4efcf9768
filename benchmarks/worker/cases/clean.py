"""Drain and exit, again and again: no row may stay locked, no job may be left."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.worker.bench import Bench
from benchmarks.worker.runs import drain
from benchmarks.worker.sides import NODE_BEST, Side, ours, theirs
from benchmarks.worker.tables import Report

# The peer's way to leave some: a local queue, and each completion for itself.
UNBATCHED = {key: value for key, value in NODE_BEST.items() if "Delay" not in key}
FEWER = 5


def run(bench: Bench) -> Iterator[Report]:
    report = Report(
        "Drain and exit",
        ("worker", "settings", "jobs", "runs", "rows left locked", "runs with some"),
    )
    here = bench.ours()
    sides: list[tuple[Side, int]] = [
        (ours(here, "nothing", "ours, sync task"), bench.times),
        (ours(here, "nothing_async", "ours, async task"), bench.times),
    ]
    if bench.node:
        sides.append(
            (theirs(bench.published(), "Node, completing singly", UNBATCHED), bench.rounds)
        )
    for side, times in sides:
        locked = []
        # The peer leaves some only where it is busy for a while.
        jobs = max(1, bench.jobs // FEWER) if side.queue is here else bench.jobs
        for _ in range(times):
            side.queue.clear()
            span = side.queue.fill(side.task, jobs)
            side.queue.settle()
            locked.append(drain(side, span, bench.watch, 0.02).locked)
        report.rows.append(
            (
                side.name,
                side.settings,
                f"{jobs:,}",
                f"{times}",
                f"{sum(locked):,}",
                f"{sum(count > 0 for count in locked)}",
            )
        )
        report.raw[side.name] = locked
        if side.queue is here and any(locked):
            report.notes.append(f"{side.name} must leave nothing locked: MISSED")
    yield report
