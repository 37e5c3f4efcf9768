"""Tasks that use a millisecond of CPU each, in one process and in two."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.worker.bench import Bench
from benchmarks.worker.runs import drain_in_turn
from benchmarks.worker.sides import ours
from benchmarks.worker.tables import Report, drain_report, rates

ONE, TWO = "ours, one process", "ours, two processes"
OVER_ONE = 1.7
FEWER = 5


def run(bench: Bench) -> Iterator[Report]:
    jobs = max(1, bench.jobs // FEWER)
    here = bench.ours()
    sides = [
        (ours(here, "burn", ONE), jobs),
        (ours(here, "burn", TWO, "--processes", "2"), jobs),
    ]
    found = drain_in_turn(sides, bench.rounds, bench.watch)
    report = drain_report("Tasks of 1 ms of CPU", found)
    report.ratios += rates(found, TWO, ONE, OVER_ONE)
    yield report
