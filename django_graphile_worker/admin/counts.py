"""Counts for the rows of a list that stop early, in the query of the list itself."""

from __future__ import annotations

from typing import Any

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import BooleanField, ExpressionWrapper, Func, IntegerField, Q, QuerySet
from django.db.models.functions import Now

# A page has 50 rows: even if each has more, 50,000 entries of an index are read, in some 20 ms.
CAP = 1_000


def capped(rows: QuerySet[Any]) -> Func:
    """Return an expression that counts `rows`, and stops at one more than the cap."""
    found = ArraySubquery(rows.order_by().values("pk")[: CAP + 1])
    return Func(found, function="cardinality", output_field=IntegerField())


def are_due(waiting: QuerySet[Any]) -> ArraySubquery:
    """Return an expression: for each waiting job, in the order they are taken, whether it is due.

    Of one more than the cap. To count the due ones alone may read all that are scheduled.
    """
    due = ExpressionWrapper(Q(run_at__lte=Now()), output_field=BooleanField())
    first = waiting.order_by("priority", "run_at").annotate(due=due)
    return ArraySubquery(first.values("due")[: CAP + 1])


def due_text(found: list[bool], due: bool) -> str:
    """Return how many of them are due, or are not; at least so many where there are more."""
    count = sum(1 for one in found[:CAP] if one is due)
    return f"{count}+" if len(found) > CAP else str(count)


def capped_text(count: int) -> str:
    return str(count) if count <= CAP else f"{CAP}+"
