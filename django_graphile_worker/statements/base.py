"""A statement: a name, a text, its parameters, and how to read what comes back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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

    def run(self, cursor: Cursor) -> T:
        """Send the statement through `cursor` and read all its rows."""
        cursor.execute(self.text, self.params)
        return self.read(cursor.fetchall())
