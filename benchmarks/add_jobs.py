"""Measures add_job and add_jobs beside bare statements and beside the published functions.

One run makes two scratch databases on one PostgreSQL: the server of DATABASE_URL, else one of its
own with PostgreSQL's own durable settings. All sides take turns, round by round; what counts are
the ratios within a round. On a machine that others use, look at the ratios by CPU, or let nobody
interrupt: chrt -r 1 python -m benchmarks.add_jobs
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg

from benchmarks import bulk, drain, first, report, single, sql
from benchmarks.cases import Places
from benchmarks.databases import Database, scratch
from benchmarks.machine import Watch, processor
from benchmarks.rounds import Case, Result, measure
from testproject import postgres

Make = Callable[[Places], Iterable[Case]]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.add_jobs",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--rounds", type=int, default=9, help="rounds for each case (default: 9)")
    add("--calls", type=int, default=200, help="calls of add_job in a round (default: 200)")
    add("--only", metavar="TEXT", default="", help="only cases with this in their names")
    add(
        "--commit",
        metavar="on|off",
        choices=("on", "off"),
        action="append",
        help="synchronous_commit; may be given twice (default: both)",
    )
    add("--quick", action="store_true", help="few rounds, few jobs: to see that it runs, no more")
    add("--without-published", action="store_true", help="measure without Node and npm package")
    add("--markdown", type=Path, metavar="FILE", help="write the tables to this file")
    add("--json", type=Path, metavar="FILE", help="write the times of all rounds to this file")
    add("--check", action="store_true", help="exit with 1 where a bound is missed")
    return parser.parse_args()


def suites(options: argparse.Namespace, commit: str, ours: Database) -> Iterator[Make]:
    """Yield what is measured, in groups that each have sessions of their own."""
    quick = options.quick
    calls = 20 if quick else options.calls
    yield lambda places: single.cases(places, calls)
    for count in (100, 500) if quick else (1_000, 10_000):
        yield lambda places, count=count: bulk.many(places, count)  # type: ignore[misc]
    # The last of these leaves the table without the index.
    if commit == options.commit[-1]:
        yield lambda places: first.cases(places, 10)
        yield lambda places: [bulk.worst(places, 1_000 if quick else 100_000)]
        jobs = 500 if quick else 20_000
        yield lambda places: [drain.case(places.ours, ours.name, jobs, 50)]
        yield lambda places: [drain.case(places.ours, ours.name, jobs, 500)]


def about(server: postgres.Server, ours: Database) -> dict[str, str]:
    """The conditions that hold for a whole run."""
    with closing(ours.connect()) as connection:
        settings = dict(connection.execute(sql.SETTINGS).fetchall())
    return {
        "server": f"{server}; " + ", ".join(f"{k} {v}" for k, v in sorted(settings.items())),
        "client": f"psycopg {psycopg.__version__} ({psycopg.pq.__impl__}), prepared statements,"
        f" Python {platform.python_version()}",
        "machine": f"{processor()}, {platform.system()} {platform.release()}",
    }


def run(options: argparse.Namespace) -> tuple[list[Result], dict[str, str]]:
    results = []
    with (
        postgres.database(durable=True) as server,
        scratch(server.url, published=not options.without_published) as (ours, published),
    ):
        facts = about(server, ours)
        print("\n".join(facts.values()), flush=True)
        for commit in options.commit:
            for make in suites(options, commit, ours):
                with closing(Places.open(ours, published, commit)) as places:
                    watch = Watch(places.ours.backend())
                    for case in make(places):
                        if options.only in case.name:
                            rounds = 2 if options.quick else options.rounds
                            results.append(measure(case, rounds, watch, {"commit": commit}))
                            print("\n" + report.text(results[-1]), flush=True)
    return results, facts


def main() -> int:
    options = arguments()
    options.commit = options.commit or ["off", "on"]
    results, facts = run(options)
    if options.markdown:
        options.markdown.write_text(report.markdown(results, facts) + "\n", encoding="utf-8")
    if options.json:
        options.json.write_text(json.dumps(report.document(results, facts)), encoding="utf-8")
    missed = [
        f"{result.case.name}: {of.over} ÷ {of.under} {of.bound()}"
        for result in results
        for of in result.missed()
    ]
    if missed and not options.quick:
        print("\nmissed:", *missed, sep="\n  ")
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
