"""How often a key is fought over, as charts: the last day by hour, the last week by 6 hours."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from typing import Any

from django.db.models import BigIntegerField, Count, Max, QuerySet
from django.db.models.functions import Cast, Extract, Floor, Now
from django.utils.translation import gettext_lazy as _

from django_graphile_worker.admin import charts
from django_graphile_worker.admin.charts import Chart, Series
from django_graphile_worker.admin.periods import clock

HOUR = 3_600

# Name, title, what one step is called, how many hours that are, and how many steps.
SPANS = (
    ("day", _("The last 24 hours"), _("per hour"), 1, 24),
    ("week", _("The last 7 days"), _("per 6 hours"), 6, 28),
)


def draw(conflicts: QuerySet[Any]) -> list[tuple[Chart, Any]]:
    """Return charts of when some conflicts were recorded, each with what one step is called."""
    # Whole hours since 1970, by the database's clock.
    hours = conflicts.order_by().values(hour=_hour("recorded_at"))
    found = {row["hour"]: row["times"] for row in hours.annotate(times=Count("pk"))}
    now = conflicts.aggregate(now=Max(_hour(Now())))["now"]
    return [] if now is None else [_chart(found, now + 1, *span) for span in SPANS]


def _hour(moment: Any) -> Any:
    seconds = Extract(moment, "epoch", tzinfo=UTC)
    return Cast(Floor(Cast(seconds, BigIntegerField()) / HOUR), BigIntegerField())


def _chart(
    found: Mapping[int, int], end: int, name: str, title: Any, each: Any, hours: int, steps: int
) -> tuple[Chart, Any]:
    starts = [end - hours * (steps - number) for number in range(steps)]
    counts = [sum(found.get(start + hour, 0) for hour in range(hours)) for start in starts]
    form = "H:i" if hours == 1 else "D H:i"
    chart = charts.bars(
        f"conflicts-{name}",
        title,
        [Series(_("conflicts"), "superseded", counts)],
        description="; ".join(
            f"{clock(start * HOUR, form)}: {count}"
            for start, count in zip(starts, counts, strict=True)
            if count
        ),
        times=[clock(start * HOUR, form) for start in starts],
        x_labels=[clock((end - hours * steps * (4 - n) / 4) * HOUR, form) for n in range(5)],
    )
    return chart, each
