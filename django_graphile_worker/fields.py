"""Model fields for what Django's own cannot read without harm."""

from __future__ import annotations

from typing import Any

from django.db import models


class JSONTextField(models.TextField):  # type: ignore[type-arg]
    """A `json` column, read as its text.

    A row of another language may hold JSON that Python cannot or should not decode (a depth of
    5,000, a number beyond float, a lone surrogate); decoding it in the fetch would make every
    query fail that meets the row.
    """

    def select_format(self, compiler: Any, sql: str, params: Any) -> tuple[str, Any]:
        return f"{sql}::text", params


class TimestampField(models.DateTimeField):  # type: ignore[type-arg]
    """A `timestamptz` column, read within the years that Python knows.

    PostgreSQL's go from 4713 BC to 294276 AD, and beyond to infinity, which is how other languages
    park a job; the driver cannot read them, and every query would fail that meets the row. They
    are read as the first or last day here. Comparisons in a query see the stored value.
    """

    def select_format(self, compiler: Any, sql: str, params: Any) -> tuple[str, Any]:
        # A day away from both ends, so that any time zone can be converted to.
        first, last = "timestamptz '0001-01-02 00:00Z'", "timestamptz '9999-12-30 00:00Z'"
        # least() and greatest() pass over a null, and would make a date of it.
        clamped = f"case when {sql} is not null then least(greatest({sql}, {first}), {last}) end"
        return clamped, (*params, *params)
