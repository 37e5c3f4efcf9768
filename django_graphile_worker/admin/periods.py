"""What was run in the last hour and the last day, as charts, a table and sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any, NamedTuple

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from django_graphile_worker.admin import charts
from django_graphile_worker.admin.charts import Chart, Series
from django_graphile_worker.statements.statistics import Totals, percentile


@dataclass(frozen=True)
class Period:
    name: str
    title: Any
    each: Any
    """What one step is called."""
    step: int
    """Seconds; a divisor of a day's, or steps would not begin where those of the database do."""
    steps: int

    @property
    def seconds(self) -> int:
        return self.step * self.steps


HOUR = Period("hour", _("The last hour"), _("per minute"), 60, 60)
DAY = Period("day", _("The last 24 hours"), _("per 15 minutes"), 900, 96)


class Times(NamedTuple):
    """How long half of the jobs, and 95 % of them, waited and ran at most, in seconds."""

    wait_p50: float | None
    wait_p95: float | None
    run_p50: float | None
    run_p95: float | None

    @classmethod
    def of(cls, totals: Totals) -> Times:
        waits, runs = totals.waits, totals.runs
        parts = ((waits, 0.5), (waits, 0.95), (runs, 0.5), (runs, 0.95))
        return cls(*(percentile(histogram, part) for histogram, part in parts))

    @property
    def texts(self) -> list[str]:
        return ["-" if value is None else charts.duration(value) for value in self]


class Row(NamedTuple):
    """A row of a table: a step of time, or a task."""

    name: str
    counts: list[str]
    times: list[str]
    url: str | None = None


@dataclass(frozen=True)
class Described:
    """A period as a template shows it. Without an attempt there are no charts and no rows."""

    period: Period
    sentences: list[str]
    charts: list[Chart]
    rows: list[Row]
    """The newest first, and only steps in which there was something."""


def describe(period: Period, found: Sequence[Totals], now: float) -> Described:
    """Describe what was run until `now`, with whose step the period ends."""
    end = (now // period.step + 1) * period.step
    starts = [end - period.step * (period.steps - number) for number in range(period.steps)]
    by_start = {totals.start: totals for totals in found}
    steps = [by_start.get(start) for start in starts]
    names = [clock(start) for start in starts]
    there = [(name, totals) for name, totals in zip(names, steps, strict=True) if totals]
    if not there:
        return Described(period, [], [], [])
    attempts, waited, ran = _sentences(_add_up(totals for _name, totals in there))
    labels = [clock(end - period.seconds * (4 - number) / 4) for number in range(5)]
    times = [Times.of(totals) if totals else Times(None, None, None, None) for totals in steps]

    def counted(label: Any, field: str) -> Series:
        return Series(label, field, [getattr(each, field) if each else 0 for each in steps])

    def timed(kind: str) -> list[Series]:
        parts = (("p50", _("half of them")), ("p95", _("95 percent")))
        return [
            Series(label, part, [getattr(each, f"{kind}_{part}") for each in times])
            for part, label in parts
        ]

    failed = counted(_("failed for good"), "failed")
    retried = counted(_("failed, to be tried again"), "retried")
    laid = {"times": names, "x_labels": labels}
    drawn = [
        charts.bars(
            f"{period.name}-succeeded",
            _("Attempts that succeeded"),
            [counted(_("succeeded"), "succeeded")],
            description=attempts,
            **laid,
        ),
        charts.bars(
            f"{period.name}-failed",
            _("Attempts that failed"),
            [failed, retried],
            description=attempts,
            **laid,
        ),
        charts.lines(
            f"{period.name}-waits",
            _("How long jobs waited"),
            timed("wait"),
            description=waited,
            **laid,
        ),
        charts.lines(
            f"{period.name}-runs",
            _("How long attempts ran"),
            timed("run"),
            description=ran,
            **laid,
        ),
    ]
    rows = [row(name, totals) for name, totals in reversed(there)]
    return Described(period, [each for each in (attempts, waited, ran) if each], drawn, rows)


def row(name: str, totals: Totals, url: str | None = None) -> Row:
    counts = [charts.count(each) for each in (totals.succeeded, totals.retried, totals.failed)]
    return Row(name, counts, Times.of(totals).texts, url)


def clock(seconds: float, form: str = "H:i") -> str:
    """Return a moment, in seconds since 1970, as the time of the day where the reader is."""
    moment = timezone.localtime(datetime.fromtimestamp(seconds, UTC))
    return date_format(moment, form)


def _sentences(whole: Totals) -> tuple[str, str, str]:
    attempts = whole.succeeded + whole.retried + whole.failed
    counts = {
        "attempts": charts.count(attempts),
        "succeeded": charts.count(whole.succeeded),
        "retried": charts.count(whole.retried),
        "failed": charts.count(whole.failed),
    }
    ended = ngettext(
        "%(attempts)s attempt ended: %(succeeded)s succeeded, %(retried)s failed and to be tried "
        "again, %(failed)s failed for good.",
        "%(attempts)s attempts ended: %(succeeded)s succeeded, %(retried)s failed and to be tried "
        "again, %(failed)s failed for good.",
        attempts,
    )
    times = Times.of(whole)
    wait_p50, wait_p95, run_p50, run_p95 = times.texts
    waited = ran = ""
    if times.wait_p50 is not None:
        waited = gettext(
            "Half of the jobs waited for up to %(p50)s, and 95 percent for up to %(p95)s."
        ) % {"p50": wait_p50, "p95": wait_p95}
    if times.run_p50 is not None:
        ran = gettext(
            "Half of the attempts ran for up to %(p50)s, and 95 percent for up to %(p95)s."
        ) % {"p50": run_p50, "p95": run_p95}
    return ended % counts, waited, ran


def _add_up(steps: Iterable[Totals]) -> Totals:
    whole = Totals("", None, 0, 0, 0, [], [])
    for each in steps:
        whole = Totals(
            "",
            None,
            whole.succeeded + each.succeeded,
            whole.retried + each.retried,
            whole.failed + each.failed,
            _add(whole.waits, each.waits),
            _add(whole.runs, each.runs),
        )
    return whole


def _add(one: list[int], other: list[int]) -> list[int]:
    return [a + b for a, b in zip_longest(one, other, fillvalue=0)]
