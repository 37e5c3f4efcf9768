"""Lays out charts for a template to draw as SVG: numbers in, texts and coordinates out.

A plot is stretched to the width that there is, so no text stands in it: labels are beside it,
evenly spaced from end to end. Coordinates are texts, or a template would write them as the reader's
language does, with a comma.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.utils.formats import number_format

WIDTH = 600
HEIGHT = 120

# Marks on a scale of durations, in seconds, evenly spaced on it and logarithmic in between.
MARKS = (0.0001, 0.001, 0.01, 0.1, 1.0, 10.0, 60.0, 600.0, 3_600.0, 36_000.0, 360_000.0)

# Each unit with its seconds, and below how many seconds it is used.
UNITS = (
    ("ms", 0.001, 1.0),
    ("s", 1.0, 120.0),
    ("min", 60.0, 7_200.0),
    ("h", 3_600.0, 172_800.0),
    ("d", 86_400.0, math.inf),
)


class Series(NamedTuple):
    """Values over time, one for each step; `None` where there is none. `style` is a class."""

    label: Any
    style: str
    values: Sequence[float | None]


class Bar(NamedTuple):
    style: str
    y: str
    height: str


class Step(NamedTuple):
    """A step of time in which there was something, and what a pointer on it is told."""

    x: str
    width: str
    text: str
    bars: list[Bar]


@dataclass(frozen=True)
class Chart:
    """What a template draws; `paths` are pairs of a style and a path, labels go from end to end.

    `counts` tells bars of numbers from lines of durations.
    """

    name: str
    title: Any
    counts: bool
    description: str
    series: Sequence[Series]
    steps: list[Step]
    paths: list[tuple[str, str]]
    x_labels: Sequence[str]
    y_labels: list[str]

    width = str(WIDTH)
    height = str(HEIGHT)

    @property
    def lines(self) -> list[str]:
        """The heights of the labels."""
        last = len(self.y_labels) - 1
        return [_text(HEIGHT * number / last) for number in range(len(self.y_labels))]


def bars(
    name: str,
    title: Any,
    series: Sequence[Series],
    *,
    description: str,
    times: Sequence[str],
    x_labels: Sequence[str],
) -> Chart:
    """Stack counts on each other, from nothing to a round number. `times` name the steps."""
    sums = [sum(values) for values in zip(*(_filled(each) for each in series), strict=True)]
    top = round_above(max(sums, default=0))
    steps = []
    for number, total in enumerate(sums):
        if not total:
            continue
        stacked, below = [], 0.0
        for each in series:
            if value := each.values[number]:
                height = HEIGHT * value / top
                below += height
                stacked.append(Bar(each.style, _text(HEIGHT - below), _text(height)))
        said = ", ".join(f"{count(each.values[number] or 0)} {each.label}" for each in series)
        steps.append(_step(number, len(sums), f"{times[number]}: {said}", stacked))
    y_labels = [count(top), count(top // 2), count(0)]
    return Chart(name, title, True, description, series, steps, [], x_labels, y_labels)


def lines(
    name: str,
    title: Any,
    series: Sequence[Series],
    *,
    description: str,
    times: Sequence[str],
    x_labels: Sequence[str],
) -> Chart:
    """Draw durations, in seconds, as lines that are broken where there is no value."""
    known = [value for each in series for value in each.values if value is not None]
    first, last = _range(known)
    marks = MARKS[first : last + 1]
    steps = []
    for number, time in enumerate(times):
        if any(each.values[number] is not None for each in series):
            said = ", ".join(
                f"{each.label} {duration(value)}"
                for each in series
                if (value := each.values[number]) is not None
            )
            steps.append(_step(number, len(times), f"{time}: {said}", []))
    paths = []
    for each in series:
        line, dots = _paths(each.values, marks)
        paths += [
            (style, path)
            for style, path in ((each.style, line), (f"{each.style} dot", dots))
            if path
        ]
    y_labels = [duration(mark) for mark in reversed(marks)]
    return Chart(name, title, False, description, series, steps, paths, x_labels, y_labels)


def duration(seconds: float) -> str:
    """Return a duration as somebody would say it, to two digits: 0.7 ms, 12 s, 3.5 h."""
    for unit, size, below in UNITS:
        if seconds < below:
            value = seconds / size
            is_short = round(value, 1) < 10 and round(value, 1) != round(value)
            digits = 1 if is_short else 0
            # Rounded first, or Django cuts off what does not fit.
            text = number_format(round(value, digits), digits)
            return f"{text}\N{NO-BREAK SPACE}{unit}"
    return "∞"


def count(number: float) -> str:
    """Return a number of things, with its thousands parted."""
    return str(number_format(int(number), force_grouping=True))


def round_above(number: float) -> int:
    """Return the next even number of one digit that counts, 1 followed by zeros among them."""
    size = 1
    while True:
        for digit in (1, 2, 4, 6, 8):
            if digit * size >= number and digit * size > 1:
                return digit * size
        size *= 10


def place(seconds: float, marks: Sequence[float]) -> float:
    """Return where a duration is on a scale: 0 at the first mark, 1 at the last, or between."""
    last = len(marks) - 1
    if seconds <= marks[0]:
        return 0.0
    for number in range(last):
        low, high = marks[number], marks[number + 1]
        if seconds <= high:
            return (number + math.log(seconds / low) / math.log(high / low)) / last
    return 1.0


def _range(known: Sequence[float]) -> tuple[int, int]:
    """Return the first and the last mark that are needed; never the same."""
    if not known:
        return 1, 4
    first = max(number for number, mark in enumerate(MARKS) if number == 0 or mark <= min(known))
    last = min(
        number for number, mark in enumerate(MARKS) if mark >= max(known) or mark == MARKS[-1]
    )
    first = min(first, len(MARKS) - 2)
    return first, max(last, first + 1)


def _paths(values: Sequence[float | None], marks: Sequence[float]) -> tuple[str, str]:
    """Return a line, and dots for values that have no other one beside them."""
    lines, dots = [], []
    padded = [None, *values, None]
    for number, value in enumerate(values):
        if value is None:
            continue
        x = _text(WIDTH * (number + 0.5) / len(values))
        y = _text(HEIGHT * (1 - place(value, marks)))
        before, after = padded[number], padded[number + 2]
        if before is None and after is None:
            dots.append(f"M{x} {y}h0")
        else:
            lines.append(f"{'M' if before is None else 'L'}{x} {y}")
    return "".join(lines), "".join(dots)


def _step(number: int, steps: int, text: str, bars: list[Bar]) -> Step:
    return Step(_text(WIDTH * number / steps), _text(WIDTH / steps), text, bars)


def _filled(series: Series) -> list[float]:
    return [value or 0 for value in series.values]


def _text(coordinate: float) -> str:
    return f"{coordinate:.2f}".rstrip("0").rstrip(".")
