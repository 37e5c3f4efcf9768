"""Measures the command graphile_worker beside its peers, in turn, on one PostgreSQL.

The peer is the npm package graphile-worker on the machine's Node.js; for one case procrastinate.
The server is that of DATABASE_URL, else one of its own with PostgreSQL's own durable settings.
Everything goes through the real commands at their default log levels. What counts are the ratios
within a round: the speed of a machine drifts.

inner: from the first job taken to the last one gone, as another session sees it.
outer: the whole program, less what it takes for a single job.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import django
import psycopg

from benchmarks import sql
from benchmarks.machine import load, processor
from benchmarks.worker.bench import Bench, open_bench
from benchmarks.worker.cases import clean, drain, hostile, latency, orm, processes, startup
from benchmarks.worker.tables import Report
from testproject import postgres
from tests import node

CASES: Mapping[str, Callable[[Bench], Iterator[Report]]] = {
    "drain": drain.run,
    "long": drain.run_long,
    "orm": orm.run,
    "latency": latency.run,
    "startup": startup.run,
    "processes": processes.run,
    "hostile": hostile.run,
    "clean": clean.run,
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.worker",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("cases", nargs="*", metavar="case", help=f"of {', '.join(CASES)} (default: all)")
    add("--rounds", type=int, default=5, help="rounds for each case (default: 5)")
    add("--jobs", type=int, default=20_000, help="jobs of a drain (default: 20,000)")
    add("--times", type=int, default=20, help="runs of the case clean (default: 20)")
    add("--without-node", action="store_true", help="measure without the npm package")
    add("--markdown", type=Path, metavar="FILE", help="write the tables to this file")
    add("--json", type=Path, metavar="FILE", help="write the figures of all rounds to this file")
    add("--check", action="store_true", help="exit with 1 where a bound is missed")
    options = parser.parse_args()
    if unknown := set(options.cases) - set(CASES):
        parser.error(f"no case {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    return options


def about(bench: Bench, server: postgres.Server) -> list[str]:
    settings = ", ".join(f"{k} {v}" for k, v in sorted(bench.ours().execute(sql.SETTINGS)))
    peer = f"Node.js {node.version_of(found)}" if (found := node.node()) and bench.node else "none"
    return [
        f"server: {server}; {settings}",
        f"Python {platform.python_version()}, Django {django.__version__},"
        f" psycopg {psycopg.__version__} ({psycopg.pq.__impl__})",
        f"peer: {peer}",
        f"machine: {processor()}, {platform.system()} {platform.release()}",
    ]


def main() -> int:
    options = arguments()
    if not options.without_node and (lack := node.missing()) is not None:
        raise SystemExit(f"{lack}; --without-node leaves the peer out")
    reports: list[Report] = []
    with (
        postgres.database(durable=True) as server,
        open_bench(
            server.url,
            rounds=options.rounds,
            jobs=options.jobs,
            times=options.times,
            node=not options.without_node,
        ) as bench,
    ):
        facts = about(bench, server)
        print("\n".join(f"- {fact}" for fact in facts) + "\n", flush=True)
        for name in options.cases or CASES:
            begun, before = time.monotonic(), load()
            bench.watch.start()
            for report in CASES[name](bench):
                others = bench.watch.others()
                busy = "not known" if others is None else f"{others:.2f} cores"
                report.notes.append(
                    f"{name}: {time.monotonic() - begun:.0f} s, load before {before},"
                    f" used by others {busy}"
                )
                reports.append(report)
                print(report, flush=True)
                begun, before = time.monotonic(), load()
                bench.watch.start()
    if options.markdown:
        lines = [*(f"- {fact}" for fact in facts), "", *map(str, reports)]
        options.markdown.write_text("\n".join(lines), encoding="utf-8")
    if options.json:
        raw = {report.title: report.raw for report in reports}
        options.json.write_text(json.dumps({"about": facts, "reports": raw}), encoding="utf-8")
    missed = [of for report in reports for of in report.ratios if of.missed]
    if missed:
        print("missed:", *missed, sep="\n  ")
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
