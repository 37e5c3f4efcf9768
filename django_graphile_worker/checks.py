"""System checks, `graphile_worker.E...` and `W...`: one id and one function each.

A database is asked by those only that say so, and only where `check --database` names it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error, Warning
from django.db import DatabaseError

from django_graphile_worker import schemas, transactions
from django_graphile_worker.conf import get_config
from django_graphile_worker.exceptions import UnsupportedDatabase
from django_graphile_worker.operations import published


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
    for alias in databases or ():
        if alias not in get_config().databases:
            continue
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
