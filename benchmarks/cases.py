"""What all cases share: the sides, each with a session of its own, and the bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks import sql
from benchmarks.databases import Database
from benchmarks.rounds import Comparison, Side

TASK = "send_letter"
QUEUE = "letters"
PAYLOAD = '{"user": 12345, "letter": "welcome"}'

Params = Sequence[Any]


class Place:
    """A session on one of the databases, with the statements put in its schema."""

    def __init__(self, database: Database, synchronous_commit: str) -> None:
        self.schema = database.schema
        self._open = partial(database.connect, synchronous_commit=synchronous_commit)
        self.connection = self._open()
        # Makes both names known.
        self.execute(sql.ADD_JOB["queue"], [TASK, PAYLOAD, QUEUE])
        self.task_id: int = self.execute(sql.KNOWN_TASK, [TASK])[0][0]
        self.queue_id: int = self.execute(sql.KNOWN_QUEUE, [QUEUE])[0][0]

    def reconnect(self) -> None:
        self.connection.close()
        self.connection = self._open()

    def execute(self, text: str, params: Params | None = None) -> list[Any]:
        cursor = self.connection.execute(text.format(s=self.schema), params)
        return cursor.fetchall() if cursor.description else []

    def backend(self) -> int:
        return self.connection.info.backend_pid

    def reset(self, holders: int = 0, running: bool = False, prefix: str = "key ") -> None:
        self.execute(sql.EMPTY)
        if holders:
            self.execute(sql.HOLDERS, [self.task_id, PAYLOAD, prefix, holders, running])
        self.execute(sql.SETTLE)


@dataclass
class Places:
    """Each side has a session of its own, hence plans of its own."""

    ours: Place
    bare: Place
    published: Place | None
    bare_there: Place | None

    @classmethod
    def open(cls, ours: Database, published: Database | None, commit: str) -> Places:
        return cls(
            Place(ours, commit),
            Place(ours, commit),
            None if published is None else Place(published, commit),
            None if published is None else Place(published, commit),
        )

    def close(self) -> None:
        for place in (self.ours, self.bare, self.published, self.bare_there):
            if place is not None:
                place.connection.close()

    def sides(
        self, ours: Callable[[Place], Side], bare: Callable[[Place], Side] | None
    ) -> dict[str, Side]:
        places = {
            "ours": (self.ours, ours),
            "bare": (self.bare, bare),
            "published": (self.published, ours),
            "bare there": (self.bare_there, bare),
        }
        return {name: make(place) for name, (place, make) in places.items() if make and place}


def bounds(
    places: Places, over_bare: float | None, over_published: float | None
) -> list[Comparison]:
    found = []
    if over_bare is not None:
        found.append(Comparison("ours", "bare", over_bare))
    if over_published is not None and places.published is not None:
        found.append(Comparison("published", "ours", over_published, at_least=True))
    return found
