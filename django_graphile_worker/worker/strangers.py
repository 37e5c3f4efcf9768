"""Tells of due jobs whose task is not served here: a misspelt name, or another fleet's."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from django_graphile_worker.statements import worker as statements
from django_graphile_worker.worker.connections import Link

logger = logging.getLogger("graphile_worker")

# Seconds between two looks.
EVERY = 60.0


class Strangers:
    """Looks now and then, and names each such task once. The jobs stay untouched."""

    def __init__(self, schema: str, identifiers: Sequence[str]) -> None:
        self._schema = schema
        self._identifiers = identifiers
        self._next = time.monotonic()
        self._named: set[str] = set()

    def look(self, link: Link) -> None:
        """Look, if it is time to. May raise what `Link.run` does."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + EVERY
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
