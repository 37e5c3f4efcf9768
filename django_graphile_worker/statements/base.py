"""A statement: a name, a text, its parameters, and how to read what comes back."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, Protocol, TypeVar

Row = Sequence[Any]
T = TypeVar("T")


class Cursor(Protocol):
    """What a statement needs of a cursor: Django's and psycopg's both have it."""

    def execute(self, query: Any, params: Any = ..., /) -> Any: ...

    def fetchall(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class Statement(Generic[T]):
    """A statement ready to be sent.

    `name` is the query file's name, `text` the SQL rendered for a schema, `params` its named
    parameters; `read` turns all rows into the result.
    """

    name: str
    text: str
    params: Mapping[str, Any]
    read: Callable[[Sequence[Row]], T]

    def send(self, cursor: Cursor) -> None:
        """Send the statement through a psycopg `RawCursor`, which numbers its parameters."""
        text, names = by_number(self.text)
        cursor.execute(text, [self.params[name] for name in names])

    def run(self, cursor: Cursor) -> T:
        """Send the statement through `cursor` and read all its rows."""
        cursor.execute(self.text, self.params)
        return self.read(cursor.fetchall())


@cache
def by_number(text: str) -> tuple[bytes, list[str]]:
    """Return a text with `$1` in place of each `%(name)s`, and the names in the order of numbers.

    psycopg does that by itself, but for a text as long as a fetch anew each time: 0.15 ms.
    """
    names: list[str] = []

    def number(match: re.Match[str]) -> str:
        if match[0] == "%%":
            return "%"
        if match[1] not in names:
            names.append(match[1])
        return f"${names.index(match[1]) + 1}"

    return re.sub(r"%%|%\((\w+)\)s", number, text).encode(), names
