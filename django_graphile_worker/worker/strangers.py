"""Tells of what is strange here: tasks that nobody serves, hidden rows, functions of another."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from django_graphile_worker.operations import published
from django_graphile_worker.statements import worker as statements
from django_graphile_worker.worker.connections import Link

logger = logging.getLogger("graphile_worker")

# Seconds between two looks.
EVERY = 60.0


def look_at_functions(link: Link) -> None:
    """Tell where another installer has replaced our functions. May raise what `Link.run` does."""
    functions = link.run(published.statement())
    if found := published.replaced(functions):
        logger.warning(
            "Not the functions of this package are in the schema: %s. Another installer has "
            "replaced them, and keyed jobs may be lost: manage.py graphile_worker_schema --repair "
            "puts them back.",
            found,
        )


class Strangers:
    """Looks now and then, and names each such task once. The jobs stay untouched.

    The first time it also tells whether rows may be hidden from this worker's role.
    """

    def __init__(self, schema: str, identifiers: Sequence[str], *, told: bool) -> None:
        self._schema = schema
        self._identifiers = identifiers
        # Who was told which tasks to serve knows that there are others.
        self._told = told
        self._next = time.monotonic()
        self._named: set[str] = set()
        self._asked = False

    def look(self, link: Link) -> None:
        """Look, if it is time to. May raise what `Link.run` does."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + EVERY
        if not self._asked and link.run(statements.rows_are_hidden(schema=self._schema)):
            logger.warning(
                "Row level security is in force for this worker's role: unless policies show it "
                "all rows, jobs wait unseen. Let it own the tables, or give it BYPASSRLS."
            )
        self._asked = True
        if self._told:
            return
        found = link.run(
            statements.get_unserved_tasks(
                schema=self._schema, identifiers=[*self._identifiers, *self._named]
            )
        )
        if found:
            self._named.update(found)
            logger.warning(
                "Jobs have been due for a minute or more whose task is not served here: %s. They "
                "wait for a worker that knows it.",
                ", ".join(found),
            )
