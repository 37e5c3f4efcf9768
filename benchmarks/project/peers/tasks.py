"""The tasks of procrastinate; its app finds them by the name of this module."""

from __future__ import annotations

from django.contrib.contenttypes.models import ContentType
from procrastinate.contrib.django import app  # type: ignore[import-not-found]


@app.task(name="one_query")  # type: ignore[untyped-decorator]
def one_query() -> None:
    ContentType.objects.get(pk=1)
