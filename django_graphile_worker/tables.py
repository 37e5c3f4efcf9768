"""The queue's tables, as Django's models and migrations name them."""

from __future__ import annotations

from django_graphile_worker.conf import get_config
from django_graphile_worker.sql.loader import quote


def db_table(name: str) -> str:
    """Return a table of the queue as `"schema"."name"`, which Django takes as it is.

    Models and migrations both ask here, when they are loaded, so that they agree whatever
    `GRAPHILE_WORKER["SCHEMA"]` says.
    """
    return f"{quote(get_config().schema)}.{quote(name)}"
