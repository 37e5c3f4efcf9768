"""Measures sides against each other: in turn, round by round, as ratios within a round.

A machine's speed drifts by half within minutes. What two sides took in the same round, moments
apart, can be compared; what they took in different rounds cannot. On a busy machine the CPU that
was used says more than the time that went by, so both are measured.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from benchmarks.machine import Watch, cpu, load

Measure = Literal["time", "cpu"]


class Taken(NamedTuple):
    """Seconds that a run took, and seconds of CPU, the client's and the server's together."""

    time: float
    cpu: float | None


@dataclass(frozen=True)
class Side:
    """``prepare`` is not timed. ``run`` times itself, ``backend`` is the server process it uses."""

    prepare: Callable[[], None]
    run: Callable[[], float]
    backend: Callable[[], int]


@dataclass(frozen=True)
class Comparison:
    """``over`` by ``under``; ``limit`` bounds it from above or, ``at_least``, from below."""

    over: str
    under: str
    limit: float | None = None
    at_least: bool = False

    def holds(self, ratio: float) -> bool:
        if self.limit is None:
            return True
        return ratio >= self.limit if self.at_least else ratio <= self.limit

    def bound(self) -> str:
        return "" if self.limit is None else f"{'≥' if self.at_least else '≤'} {self.limit:g}"


@dataclass(frozen=True)
class Case:
    """Something to measure. A run of a side is ``each`` times the ``unit``."""

    name: str
    unit: str
    each: int
    sides: Mapping[str, Side]
    comparisons: Sequence[Comparison] = ()


@dataclass
class Result:
    """What each side took, one for each round."""

    case: Case
    conditions: Mapping[str, str]
    load: float | None
    taken: dict[str, list[Taken]]
    others: list[float | None] = field(default_factory=list)

    def microseconds(self, side: str, measure: Measure = "time") -> float | None:
        values = self.values(side, measure)
        return statistics.median(values) / self.case.each * 1e6 if values else None

    def ratios(self, of: Comparison, measure: Measure = "time") -> list[float]:
        over, under = self.values(of.over, measure), self.values(of.under, measure)
        return [a / b for a, b in zip(over, under, strict=True)]

    def values(self, side: str, measure: Measure) -> list[float]:
        values = [getattr(taken, measure) for taken in self.taken[side]]
        return [] if None in values else values

    def missed(self) -> list[Comparison]:
        return [
            comparison
            for comparison in self.case.comparisons
            if not comparison.holds(statistics.median(self.ratios(comparison)))
        ]


def measure(case: Case, rounds: int, watch: Watch, conditions: Mapping[str, str]) -> Result:
    """Run every side once in each round, in turn, beginning with another side each time."""
    names = list(case.sides)
    result = Result(case, conditions, load(), {name: [] for name in names})
    for number in range(rounds):
        begin = number % len(names)
        watch.start()
        for name in names[begin:] + names[:begin]:
            result.taken[name].append(once(case.sides[name]))
        result.others.append(watch.others())
    return result


def once(side: Side) -> Taken:
    side.prepare()
    backend = side.backend()
    begin = cpu(backend)
    elapsed = side.run()
    end = cpu(backend)
    return Taken(elapsed, None if begin is None or end is None else end - begin)
