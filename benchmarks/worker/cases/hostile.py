"""A table full of jobs that cannot run now, around a few that can."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.worker.bench import Bench
from benchmarks.worker.queue import Queue
from benchmarks.worker.runs import Drained, drain, in_turn
from benchmarks.worker.sides import ours
from benchmarks.worker.tables import Report, drain_report, rates

EMPTY, FULL = "no queue, empty table", "no queue, hostile table"
MORE_EMPTY, MORE_FULL = "ten times as many, empty table", "ten times as many, hostile table"
NAMED_EMPTY, NAMED_FULL = "named queues, empty table", "named queues, hostile table"
OF_EMPTY = 0.8

QUEUES = 20
# Behind and ahead of ours, which have 0.
UNSERVED_PRIORITIES = {"behind": 50, "ahead of": -50}


def run(bench: Bench) -> Iterator[Report]:
    """One report for each place where the jobs of a task that nobody serves are sorted."""
    empty, full = bench.ours(), bench.ours("hostile")
    part = bench.jobs / 20_000
    ready, named = round(2_000 * part), round(200 * part)
    for where, priority in UNSERVED_PRIORITIES.items():
        empty.clear()
        empty.make_queues("busy ", QUEUES)
        make_hostile(full, part, priority)
        found = {
            name: Drained(ours(queue, "nothing", name), jobs)
            for name, queue, jobs in (
                (EMPTY, empty, ready),
                (FULL, full, ready),
                (MORE_EMPTY, empty, ready * 10),
                (MORE_FULL, full, ready * 10),
                (NAMED_EMPTY, empty, named),
                (NAMED_FULL, full, named),
            )
        }

        def once(of: Drained) -> None:
            queues = "busy " if of.side.name in (NAMED_EMPTY, NAMED_FULL) else "-"
            span = of.side.queue.fill(of.side.task, of.jobs, queues=queues)
            of.side.queue.settle()
            of.runs.append(drain(of.side, span, bench.watch, 0.001))

        in_turn(found, once, bench.rounds)
        title = f"Hostile table, with jobs that nobody serves {where} ours"
        report = drain_report(title, found)
        limit = OF_EMPTY if priority > 0 else None
        report.ratios += rates(found, FULL, EMPTY, limit)
        report.ratios += rates(found, MORE_FULL, MORE_EMPTY, None)
        report.ratios += rates(found, NAMED_FULL, NAMED_EMPTY, None)
        rows = full.execute("select count(*) from {s}._private_jobs")[0][0]
        report.notes.append(f"{rows:,} jobs in the table that could not run")
        yield report
    full.clear()


def make_hostile(queue: Queue, part: float, unserved: int) -> None:
    """Failed, future, in queues that another worker holds, of a task that nobody serves."""

    def count(of: int) -> int:
        return max(1, round(of * part))

    queue.clear()
    queue.make_queues("idle ", count(20_000))
    queue.make_queues("busy ", QUEUES)
    queue.make_queues("held ", 2, locked=True)
    queue.fill("nothing", count(300_000), attempts=25)
    queue.fill("nothing", count(300_000), later="1 day")
    queue.fill("nothing", count(100_000), priority=-100, queues="held ")
    queue.fill("served by nobody", count(300_000), priority=unserved)
