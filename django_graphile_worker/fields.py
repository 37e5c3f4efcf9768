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
