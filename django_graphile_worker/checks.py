"""System checks, `graphile_worker.E...` and `W...`: one id and one function each.

A database is asked by those only that say so, and only where `check --database` names it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error, Warning
from django.db import DatabaseError, transaction

from django_graphile_worker import schemas, transactions
from django_graphile_worker.conf import get_config
from django_graphile_worker.exceptions import UnsupportedDatabase
from django_graphile_worker.operations import published
from django_graphile_worker.statements import jobs, workers

# Seconds; a check may be what a deployment waits for. And what PostgreSQL says then: query_canceled
# and lock_not_available.
LONGEST_COUNT = 10.0
GAVE_UP = ("57014", "55P03")


def check_databases(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """E001: an alias in `GRAPHILE_WORKER["DATABASES"]` is not PostgreSQL through psycopg 3."""
    found: list[CheckMessage] = []
    for alias in get_config().databases:
        try:
            transactions.queue_connection(alias)
        except UnsupportedDatabase as error:
            found.append(Error(str(error), id="graphile_worker.E001"))
    return found


def check_functions(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None, **kwargs: Any
) -> list[CheckMessage]:
    """W001: another installer has replaced functions of ours. Asks the databases that are named."""
    found: list[CheckMessage] = []
    for alias in _asked(databases):
        try:
            state = schemas.read_schema(using=alias)
        except (UnsupportedDatabase, DatabaseError):
            continue  # E001's to tell, or the connection's
        if state.origin is not None and not state.is_well:
            found.append(
                Warning(
                    f"Not the functions of this package are in the schema {state.schema!r} of"
                    f" database {alias!r}: {published.replaced(state.functions)}.",
                    hint="manage.py graphile_worker_schema --repair puts them back.",
                    id="graphile_worker.W001",
                )
            )
    return found


def check_stranded_jobs(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None, **kwargs: Any
) -> list[CheckMessage]:
    """W010: jobs that nobody ever runs, since the row of their task or queue is gone.

    Asks the databases that are named.
    """
    found: list[CheckMessage] = []
    for alias in _asked(databases):
        try:
            count = _count_stranded(alias)
        except (UnsupportedDatabase, DatabaseError) as error:
            if getattr(error.__cause__, "sqlstate", None) in GAVE_UP:
                found.append(_stranded(alias, "it took too long to count them"))
            continue  # else E001's to tell, or there is no schema
        if count:
            or_more = " or more" if count >= jobs.MOST_STRANDED else ""
            found.append(_stranded(alias, f"{count}{or_more}"))
    return found


def _asked(databases: Sequence[str] | None) -> list[str]:
    """Those of the databases named that are to hold a queue."""
    return [alias for alias in databases or () if alias in get_config().databases]


def _stranded(alias: str, several: str) -> CheckMessage:
    return Warning(
        f"Jobs that nobody ever runs, in database {alias!r}: {several}. A cleanup of names that"
        " runs while jobs are added leaves some without a task or queue.",
        hint="docs/compatibility.md tells how to find them: add them again, and delete these rows.",
        id="graphile_worker.W010",
    )


def _count_stranded(alias: str) -> int:
    connection = transactions.queue_connection(alias)
    with transaction.atomic(using=alias), connection.cursor() as cursor:
        workers.prepare_upkeep(seconds=LONGEST_COUNT, local=True).run(cursor)
        count = jobs.count_stranded_jobs(schema=get_config().schema).run(cursor)
        # Whoever calls this in a transaction of theirs gets its settings back.
        transaction.set_rollback(True, using=alias)
    return count
