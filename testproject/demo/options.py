"""The demo's command line."""

from __future__ import annotations

import argparse

# Written out here, since what lies there needs Django.
VARIANTS = ("no_row", "holder_returned")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m testproject.demo",
        description="Run the workload under which keyed jobs were reported lost: four schedulers, "
        "each 100 calls of add_job over 10 keys, again and again, against quick printer jobs. "
        "The database is the one at DATABASE_URL, else one that is started here.",
        epilog="Exit code: 0 if nothing was lost, 1 if something was, 2 if it cannot be told.",
    )
    parser.add_argument(
        "--seconds", type=seconds, default=30, metavar="N", help="how long to call (30)"
    )
    parser.add_argument(
        "--concurrency",
        type=slots,
        default=10,
        metavar="N",
        help="how many jobs the worker runs at a time, 2 to 100 (10)",
    )
    parser.add_argument(
        "--uncorrected",
        action="store_true",
        help="call functions that have the reported fault, to see what they lose",
    )
    parser.add_argument(
        "--variant",
        choices=VARIANTS,
        help="what those give back for a lost request: nothing (no_row, the default), or the "
        "running job as if it stood for the request",
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep the database until Ctrl-C, to look at it"
    )
    parser.add_argument(
        "--serve",
        action="store_true",
        help="instead: serve the admin on this machine, with live traffic, until Ctrl-C",
    )
    parser.add_argument(
        "--port", type=port, metavar="N", help="where to serve it (a port that is free)"
    )
    options = parser.parse_args()
    if options.serve and (options.uncorrected or options.keep):
        parser.error("--serve goes with --concurrency and --port only")
    if options.port is not None and not options.serve:
        parser.error("--port is for --serve")
    if options.variant and not options.uncorrected:
        parser.error("--variant is for --uncorrected")
    if options.uncorrected:
        options.variant = options.variant or VARIANTS[0]
    return options


def seconds(text: str) -> float:
    value = float(text)
    if not 0 < value <= 86_400:
        raise ValueError
    return value


def port(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 65_535:
        raise ValueError
    return value


def slots(text: str) -> int:
    # With one slot no key is asked for while its job runs.
    value = int(text)
    if not 2 <= value <= 100:
        raise ValueError
    return value
