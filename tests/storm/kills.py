"""kill -9 at random, under load: worker processes die, and what they held runs again.

    python -m tests.storm.kills --times 100

makes a database of its own beside that at `DATABASE_URL` (or on a PostgreSQL that it starts), ends
with a table, and with exit code 1 if a promise was broken.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

import psycopg
from psycopg import sql

from testproject import postgres
from tests.storm.killing import ROOT, Kills


def say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=100, help="how many processes to kill (100)")
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--heartbeat", default="0.5", help="seconds (0.5); the default is 5")
    parser.add_argument("--stale-after", default="3", help="seconds (3); the default is 30")
    parser.add_argument("--seed", type=int)
    options = parser.parse_args()

    with postgres.database() as server, psycopg.connect(server.url, autocommit=True) as session:
        name = f"kills_{os.getpid()}"
        session.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        try:
            address = server.url.rpartition("/")[0] + f"/{name}"
            subprocess.run(
                [sys.executable, "testproject/manage.py", "migrate", "-v", "0"],
                cwd=ROOT,
                env={**os.environ, "DATABASE_URL": address},
                check=True,
            )
            begun = time.monotonic()
            report = Kills(
                address=address,
                schema=os.environ.get("GRAPHILE_WORKER_SCHEMA", "graphile_worker"),
                times=options.times,
                processes=options.processes,
                flags=("--heartbeat", options.heartbeat, "--stale-after", options.stale_after),
                seed=options.seed,
                say=say,
            ).run()
            sys.stdout.write(f"{server}; {time.monotonic() - begun:.0f} s\n{report}\n")
        finally:
            session.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
