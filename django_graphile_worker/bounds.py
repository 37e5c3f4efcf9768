"""What a setting may be: each returns the value, or raises `ValueError` with what it must be."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TypeGuard


def aliases(value: object) -> tuple[str, ...]:
    if (
        not isinstance(value, list | tuple)
        or not value
        or not all(isinstance(alias, str) and alias for alias in value)
    ):
        raise ValueError('a list of database aliases, such as ["default"]')
    if len(set(value)) != len(value):
        raise ValueError("a list without repeats")
    return tuple(value)


def schema(value: object) -> str:
    # PostgreSQL cuts a longer name silently, and keeps the prefix pg_ for itself.
    if (
        not isinstance(value, str)
        or not 1 <= len(value.encode(errors="replace")) <= 63
        or re.search("[\0%$\ud800-\udfff]", value)
        or value.startswith("pg_")
    ):
        # Django formats a statement more than once, so a table's name cannot hold a `%`; and 5.2
        # takes no `$` in one, which could end the body of a function as well.
        raise ValueError(
            "the name of a schema: 1 to 63 bytes in UTF-8, without % and $, not starting with pg_"
        )
    return value


def are_flags(value: object) -> TypeGuard[list[str] | tuple[str, ...]]:
    """Whether this is a list of flags that the database can hold."""
    return isinstance(value, list | tuple) and all(
        isinstance(flag, str) and flag and not re.search("[\0\ud800-\udfff]", flag)
        for flag in value
    )


def is_dotted_path(value: object) -> bool:
    # Settings are read while apps are still loading: it is imported by who needs it.
    return (
        isinstance(value, str)
        and "." in value
        and all(part.isidentifier() for part in value.split("."))
    )


def one_of(*choices: str) -> Callable[[object], str]:
    def check(value: object) -> str:
        if not isinstance(value, str) or value not in choices:
            raise ValueError(" or ".join(repr(choice) for choice in choices))
        return value

    return check


def integer(low: int, high: int) -> Callable[[object], int]:
    def check(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"an integer from {low} to {high}")
        return value

    return check


def or_none(check: Callable[[object], object]) -> Callable[[object], object]:
    return lambda value: None if value is None else check(value)


def seconds(low: float, high: float) -> Callable[[object], float]:
    def check(value: object) -> float:
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not math.isfinite(value)
            or not low <= value <= high
        ):
            raise ValueError(f"a number of seconds from {low:g} to {high:g}")
        return float(value)

    return check
