"""A filled queue of jobs that do nothing, until it is empty."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.worker.bench import Bench
from benchmarks.worker.runs import drain_in_turn
from benchmarks.worker.sides import NODE_BEST, NODE_DEFAULTS, ours, theirs
from benchmarks.worker.tables import Report, drain_report, rates

SYNC, ASYNC, LISTENING = "ours, sync task", "ours, async task", "ours, sync task, listening"
BEST, DEFAULTS = "Node, best settings", "Node, defaults"

OVER_BEST = 1.5
OVER_BEST_LONG = 1.2
OVER_DEFAULTS = 8
LONG = 10  # times as many jobs
FEWER = 4  # of them tell the peer's rate as well, where it is so much slower


def run(bench: Bench) -> Iterator[Report]:
    here = bench.ours()
    sides = [
        (ours(here, "nothing", SYNC), bench.jobs),
        (ours(here, "nothing_async", ASYNC), bench.jobs),
        (ours(here, "nothing", LISTENING, once=False), bench.jobs),
    ]
    if bench.node:
        there = bench.published()
        sides.insert(1, (theirs(there, BEST, NODE_BEST), bench.jobs))
        sides.append((theirs(there, DEFAULTS, NODE_DEFAULTS), max(1, bench.jobs // FEWER)))
    found = drain_in_turn(sides, bench.rounds, bench.watch)
    report = drain_report(f"Drain of {bench.jobs:,} jobs", found)
    if bench.node:
        for name in (SYNC, ASYNC, LISTENING):
            # What ends by a signal has no clean time of its whole program.
            report.ratios += rates(found, name, BEST, OVER_BEST)[: 1 if name == LISTENING else 2]
        report.ratios += rates(found, SYNC, DEFAULTS, OVER_DEFAULTS)
    yield report


def run_long(bench: Bench) -> Iterator[Report]:
    here, jobs = bench.ours(), bench.jobs * LONG
    sides = [
        (ours(here, "nothing", SYNC), jobs),
        (ours(here, "nothing_async", ASYNC), jobs),
    ]
    if bench.node:
        sides.insert(1, (theirs(bench.published(), BEST, NODE_BEST), jobs))
    found = drain_in_turn(sides, bench.rounds, bench.watch)
    report = drain_report(f"Drain of {jobs:,} jobs", found)
    if bench.node:
        for name in (SYNC, ASYNC):
            report.ratios += rates(found, name, BEST, OVER_BEST_LONG)
    yield report
