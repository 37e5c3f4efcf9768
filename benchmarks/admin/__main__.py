"""Fill a database with two million jobs, and ask for every page of the admin.

The server ends every statement after two seconds, as a careful project's would; a page that needs
longer fails.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import django
import psycopg
from psycopg import sql

from benchmarks.admin.fill import fill
from benchmarks.databases import Database, install, scratch
from benchmarks.machine import load, processor
from benchmarks.worker.tables import aligned
from testproject import postgres

STATEMENT_TIMEOUT = "2s"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.admin", description=__doc__)
    add = parser.add_argument
    add("--jobs", type=int, default=2_000_000, help="(2000000)")
    add("--times", type=int, default=3, help="how often each page is asked for (3)")
    add("--filled", metavar="URL", help="a database that was filled before, to spare the time")
    add("--fill", metavar="URL", help="fill this empty database and do no more")
    add("--markdown", type=Path, help="write the table to this file")
    add("--check", action="store_true", help="exit with 1 where a page misses its bounds")
    return parser.parse_args()


def filled(database: Database, jobs: int) -> None:
    with database.connect() as connection:
        fill(connection, database.schema, jobs)


@contextlib.contextmanager
def database(options: argparse.Namespace) -> Iterator[str]:
    """The address of a filled database."""
    if options.filled:
        install(options.filled)
        yield options.filled
        return
    with (
        postgres.database(durable=True) as server,
        scratch(server.url, published=False) as (ours, _theirs),
    ):
        filled(ours, options.jobs)
        yield ours.url


def bound(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            sql.SQL("alter database {} set statement_timeout = {}").format(
                sql.Identifier(urlsplit(url).path[1:]), sql.Literal(STATEMENT_TIMEOUT)
            )
        )


def main() -> int:
    options = arguments()
    if options.fill:
        filled(Database(options.fill, install(options.fill)), options.jobs)
        return 0
    with database(options) as url:
        bound(url)
        os.environ["DATABASE_URL"] = url
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")
        django.setup()
        from django.db import connections

        from benchmarks.admin.pages import measure

        try:
            before = load()
            pages = measure(options.times)
        finally:
            connections.close_all()
    rows = [("page", "median, ms", "longest, ms", "queries")]
    for page in sorted(pages, key=lambda page: -max(page.times)):
        of = "" if page.status == 200 else f" ({page.status})"
        times = page.median * 1000, max(page.times) * 1000
        rows.append((page.url + of, *(f"{ms:.0f}" for ms in times), str(page.queries)))
    lines = [
        f"- {processor()}, load before {before}",
        f"- statement_timeout {STATEMENT_TIMEOUT}, {len(pages)} pages",
        "",
        *aligned(rows),
    ]
    print("\n".join(lines))
    if options.markdown:
        options.markdown.write_text("\n".join(lines) + "\n", encoding="utf-8")
    missed = [page for page in pages if page.missed]
    for page in missed:
        print(f"missed: {page.url}: {page.status}, {max(page.times):.2f} s, {page.queries} queries")
        print(f"  {page.slowest}")
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
