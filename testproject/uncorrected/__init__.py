"""The fault that this package corrects: its shape, in SQL of our own, to be seen and measured.

`install` puts functions of that shape into a schema of their own, beside the queue's; they work on
the queue's tables and have the contract's signatures. For tests and for the demo only: they lose
requests. In both variants a worker that locks a key's holder between the functions' two statements
makes the request vanish; they differ in what the caller is told:

``no_row``           nothing: `add_jobs` returns too few rows and `add_job` one that is all null;
``holder_returned``  the running job, unchanged, as if it stood for the request.

Other faults of that shape are here as well: names are made one statement before they are looked up,
in the order of the specs, for one identity value each; rows are locked in the order of the specs;
`remove_job` decides before it locks.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from django_graphile_worker.sql.loader import quote

VARIANTS = ("no_row", "holder_returned")

_FILES = ("schema", "store", "add_jobs_{variant}", "add_job", "remove_job")


def install(connection: Any, queue_schema: str, variant: str, schema: str = "uncorrected") -> None:
    """Make the schema `schema` with `add_job`, `add_jobs` and `remove_job` of the fault's shape.

    `connection` is Django's or psycopg's; nothing is committed here. The queue's schema must have
    been migrated. Raises `ValueError` for an unknown variant.
    """
    if variant not in VARIANTS:
        raise ValueError(f"variant is {variant!r}; it must be one of {', '.join(VARIANTS)}")
    with connection.cursor() as cursor:
        for name in _FILES:
            path = Path(__file__).with_name(f"{name.format(variant=variant)}.sql")
            cursor.execute(_render(path.read_text(encoding="utf-8"), queue_schema, schema))


def uninstall(connection: Any, schema: str = "uncorrected") -> None:
    """Drop what `install` made, if it is there; nothing is committed here."""
    with connection.cursor() as cursor:
        cursor.execute(f"drop schema if exists {quote(schema)} cascade")


def _render(text: str, queue_schema: str, schema: str) -> str:
    names = {":SCHEMA": quote(queue_schema), ":BESIDE": quote(schema)}
    return re.sub(":(?:SCHEMA|BESIDE)", lambda match: names[match[0]], text)
