"""System checks, `graphile_worker.E...`: one id and one function each. No database is asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error

from django_graphile_worker import transactions
from django_graphile_worker.conf import get_config
from django_graphile_worker.exceptions import UnsupportedDatabase


def check_databases(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """E001: an alias in `GRAPHILE_WORKER["DATABASES"]` is not PostgreSQL through psycopg 3."""
    found: list[CheckMessage] = []
    for alias in get_config().databases:
        try:
            transactions.queue_connection(alias)
        except UnsupportedDatabase as error:
            found.append(Error(str(error), id="graphile_worker.E001"))
    return found
