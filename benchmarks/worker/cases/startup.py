"""Start, run one job, exit; and how much memory a drain takes: beside ``manage.py check``."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.worker.bench import Bench
from benchmarks.worker.programs import Ended, Program
from benchmarks.worker.runs import drain, in_turn
from benchmarks.worker.sides import NODE_BEST, Side, manage, ours, theirs
from benchmarks.worker.tables import Ratio, Report, compare, spread

ONE, MANY, CHECK, PEER = "ours, one job", "ours, a drain", "manage.py check", "Node, one job"
OF_CHECK = 1.3
MORE = 2  # times as many rounds: each takes moments


def run(bench: Bench) -> Iterator[Report]:
    side = ours(bench.ours(), "nothing", ONE)
    sides = {ONE: (side, 1), CHECK: (side, 0), MANY: (side, bench.jobs)}
    if bench.node:
        sides[PEER] = (theirs(bench.published(), PEER, NODE_BEST), 1)
    walls: dict[str, list[float]] = {name: [] for name in sides}
    sizes: dict[str, list[float]] = {name: [] for name in sides}
    cpus: dict[str, list[float]] = {name: [] for name in sides}

    def once(name: str) -> None:
        side, jobs = sides[name]
        if jobs:
            side.queue.clear()
            span = side.queue.fill(side.task, jobs)
            side.queue.settle()
        ended = drain(side, span, bench.watch) if jobs else check(side)
        walls[name].append(ended.wall * 1000)
        cpus[name].append(ended.cpu * 1000)
        sizes[name].append(ended.memory)

    once(ONE)  # compiles what was never run
    once(CHECK)
    for of in (walls, sizes, cpus):
        for values in of.values():
            values.clear()
    in_turn({name: name for name in sides}, once, bench.rounds * MORE)
    report = Report(
        "Start, run one job, exit", ("program", "jobs", "runs", "ms", "its CPU, ms", "peak MiB")
    )
    for name, (_, jobs) in sides.items():
        report.rows.append(
            (
                name,
                f"{jobs:,}",
                f"{len(walls[name])}",
                spread(walls[name]),
                spread(cpus[name]),
                spread(sizes[name], ".1f"),
            )
        )
    for what, found, name, limit in (
        ("time", walls, ONE, OF_CHECK),
        ("CPU", cpus, ONE, None),
        ("peak memory", sizes, MANY, OF_CHECK),
    ):
        ratios = compare(found[name], found[CHECK])
        report.ratios.append(Ratio(f"{what}: {name} ÷ {CHECK}", ratios, limit, at_least=False))
    report.raw = {"ms": walls, "cpu": cpus, "mib": sizes}
    yield report


def check(side: Side) -> Ended:
    return Program(manage("check"), {"DATABASE_URL": side.queue.url, **side.environment}).end()
