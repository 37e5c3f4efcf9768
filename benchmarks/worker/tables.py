"""Reports: a table each, and ratios with their bounds below it."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.worker.runs import Drained


@dataclass(frozen=True)
class Ratio:
    """Something compared, once in each round; ``limit`` bounds it, ``at_least`` from below."""

    what: str
    values: Sequence[float]
    limit: float | None = None
    at_least: bool = True

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def missed(self) -> bool:
        if self.limit is None:
            return False
        return self.median < self.limit if self.at_least else self.median > self.limit

    def __str__(self) -> str:
        text = f"{self.what}: {spread(self.values, '.2f')}"
        if self.limit is not None:
            bound = f"{'≥' if self.at_least else '≤'} {self.limit:g}"
            text += f"; bound {bound}, {'MISSED' if self.missed else 'kept'}"
        return text


@dataclass
class Report:
    """What a case found. ``raw`` has the figures of all rounds."""

    title: str
    head: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    ratios: list[Ratio] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    raw: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        """As Markdown that can be read as it is."""
        lines = [f"### {self.title}", "", *aligned([self.head, *self.rows]), ""]
        return "\n".join([*lines, *(f"- {of}" for of in [*self.ratios, *self.notes]), ""])


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    # Text to the left, figures to the right.
    right = [all(cell[:1].isdigit() for cell in column[1:]) for column in zip(*rows, strict=True)]
    shown = [
        [
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ]
        for row in rows
    ]
    rule = ["-" * (w - 1) + (":" if r else "-") for w, r in zip(widths, right, strict=True)]
    return ["| " + " | ".join(row) + " |" for row in [shown[0], rule, *shown[1:]]]


def spread(values: Sequence[float], form: str = ",.0f") -> str:
    """The median, with the smallest and the largest."""
    if not values:
        return "not told"
    low, middle, high = (f(values) for f in (min, statistics.median, max))
    return f"{middle:{form}} ({low:{form}} to {high:{form}})"


def compare(over: Sequence[float], under: Sequence[float]) -> list[float]:
    """The ratios within each round."""
    return [a / b for a, b in zip(over, under, strict=True)]


DRAIN_HEAD = (
    "worker",
    "settings",
    "jobs",
    "runs",
    "jobs/s inner",
    "jobs/s outer",
    "its CPU, µs/job",
    "PostgreSQL's",
    "peak MiB",
)


def drain_report(title: str, found: dict[str, Drained]) -> Report:
    """A row for each side."""
    report = Report(title, DRAIN_HEAD)
    for name, of in found.items():
        own, server = of.each(lambda run: run.cpu), of.each(lambda run: run.server)
        report.rows.append(
            (
                name,
                of.side.settings,
                f"{of.jobs:,}",
                f"{len(of.runs)}",
                spread(of.inner),
                spread(of.outer),
                f"{own:.1f}",
                "not known" if server is None else f"{server:.1f}",
                f"{max(run.memory for run in of.runs):.0f}",
            )
        )
        if of.locked:
            report.notes.append(f"{name} left {of.locked} rows locked")
        report.raw[name] = {
            "runs": [dataclasses.asdict(run) for run in of.runs],
            "single": [dataclasses.asdict(run) for run in of.single],
        }
    return report


def rates(found: dict[str, Drained], over: str, under: str, limit: float | None) -> list[Ratio]:
    """The ratio of the rates of two sides, inner and outer."""
    a, b = found[over], found[under]
    ratios = [Ratio(f"{over} ÷ {under}, inner", compare(a.inner, b.inner), limit)]
    if a.outer and b.outer:
        ratios.append(Ratio(f"{over} ÷ {under}, outer", compare(a.outer, b.outer), limit))
    return ratios
