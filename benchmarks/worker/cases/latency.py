"""How soon an idle worker begins a job, from before the call that adds it."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.worker.bench import Bench
from benchmarks.worker.programs import Program
from benchmarks.worker.runs import in_turn
from benchmarks.worker.sides import NODE_BEST, NODE_DEFAULTS, manage, peer, peer_environment
from benchmarks.worker.tables import Ratio, Report, compare, spread

OURS, BEST, DEFAULTS = "ours, enqueue()", "Node, best settings, addJob", "Node, defaults, addJob"
SAMPLES = 200
OF_PEER = 0.65

HEAD = ("worker and sender", "settings", "runs x samples", "median ms", "p95 ms", "the call, ms")


class Sides:
    """A worker and a sender, each a process of its own, for a round."""

    def __init__(
        self, url: str, environment: Mapping[str, str], worker: list[str], sender: list[str]
    ) -> None:
        self._environment = {"DATABASE_URL": url, **environment}
        self._worker = worker
        self._sender = sender
        self.medians: list[float] = []
        self.slowest: list[float] = []
        self.calls: list[float] = []

    def measure(self) -> None:
        worker = Program(self._worker, self._environment)
        try:
            taken = json.loads(Program(self._sender, self._environment).end().output)
        finally:
            worker.terminate()
        worker.end()
        delays = [delay for delay, _ in taken]
        self.medians.append(statistics.median(delays))
        self.slowest.append(statistics.quantiles(delays, n=20)[-1])
        self.calls.append(statistics.median(call for _, call in taken))


def run(bench: Bench) -> Iterator[Report]:
    ours = Sides(
        bench.ours().url,
        {"DJANGO_SETTINGS_MODULE": "benchmarks.project.settings"},
        manage("graphile_worker"),
        manage("send_jobs", str(SAMPLES)),
    )
    sides, shown = {OURS: ours}, {OURS: "graphile_worker"}
    if bench.node:
        for name, settings in ((BEST, NODE_BEST), (DEFAULTS, NODE_DEFAULTS)):
            sides[name], shown[name] = theirs(bench, settings), "run, as in drain"
    for queue in bench.queues.values():
        queue.clear()
    in_turn(sides, Sides.measure, bench.rounds)
    report = Report("Latency of an idle worker", HEAD)
    for name, side in sides.items():
        report.rows.append(
            (
                name,
                shown[name],
                f"{len(side.medians)} x {SAMPLES}",
                spread(side.medians, ".2f"),
                spread(side.slowest, ".2f"),
                spread(side.calls, ".2f"),
            )
        )
        report.raw[name] = {"medians": side.medians, "p95": side.slowest, "calls": side.calls}
    for name in list(sides)[1:]:
        ratios = compare(ours.medians, sides[name].medians)
        report.ratios.append(Ratio(f"{OURS} ÷ {name}", ratios, OF_PEER, at_least=False))
    yield report


def theirs(bench: Bench, settings: Mapping[str, Any]) -> Sides:
    return Sides(
        bench.published().url,
        peer_environment(),
        peer("listen", json.dumps(settings)),
        peer("send", str(SAMPLES)),
    )
