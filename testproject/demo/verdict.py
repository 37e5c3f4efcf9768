"""From the record to a verdict. No database here: what is judged can be made up in a test."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

# Less than this shows nothing: four schedulers of 100 calls, and the race's precondition (a key
# asked for while its job runs) met a few times.
ENOUGH_CALLS = 400
ENOUGH_SUPERSEDINGS = 10


class Exit(IntEnum):
    """The exit code of the demo."""

    NOTHING_LOST = 0
    LOST = 1
    INCONCLUSIVE = 2


@dataclass(frozen=True, slots=True)
class Calls:
    """The calls of one scheduler, by number: all of them; without a row; ended by an error."""

    numbers: range
    missing: frozenset[int]
    failed: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came of a demonstration. `supersedings` is `None` where nobody records them."""

    calls: int
    rows: int
    missing: int
    lost: int
    errors: int
    deadlocks: int
    supersedings: int | None
    runs: int
    seconds: float

    @property
    def sound(self) -> bool:
        """Whether every request was kept, without deadlocks and errors."""
        return not (self.missing or self.lost or self.deadlocks or self.errors)

    @property
    def doubt(self) -> str | None:
        """Why finding no fault would mean nothing; `None` where it does mean something."""
        if self.calls < ENOUGH_CALLS:
            return f"only {self.calls} calls were made, {ENOUGH_CALLS} are needed"
        if self.supersedings is not None and self.supersedings < ENOUGH_SUPERSEDINGS:
            return (
                f"a key was asked for while its job ran only {self.supersedings} times, "
                f"{ENOUGH_SUPERSEDINGS} are needed"
            )
        return None

    @property
    def exit_code(self) -> Exit:
        if not self.sound:
            return Exit.LOST
        return Exit.NOTHING_LOST if self.doubt is None else Exit.INCONCLUSIVE

    def lines(self) -> list[str]:
        """The figures, one a line."""
        rate = self.runs / self.seconds if self.seconds else 0
        superseded = "unknown" if self.supersedings is None else f"{self.supersedings:,}"
        rows = [
            ("calls", f"{self.calls:,}", ""),
            ("rows", f"{self.rows:,}", ""),
            ("missing", f"{self.missing:,}", "calls that got no row"),
            ("lost", f"{self.lost:,}", "committed requests that no run carried, by their numbers"),
            ("deadlocks", f"{self.deadlocks:,}", ""),
            ("errors", f"{self.errors:,}", ""),
            ("supersedings", superseded, "requests whose key was held by a running job"),
            ("printer runs", f"{self.runs:,}", f"{rate:,.0f} a second"),
        ]
        return [f"  {name:<14}{figure:>10}   {note}".rstrip() for name, figure, note in rows]


def judge(
    calls: Iterable[Calls],
    runs: Iterable[Iterable[int]],
    *,
    deadlocks: int,
    supersedings: int | None,
    seconds: float,
) -> Verdict:
    """Compare what was asked for with what the runs carried."""
    asked: set[int] = set()
    missing: set[int] = set()
    failed: set[int] = set()
    for batch in calls:
        asked.update(batch.numbers)
        missing |= batch.missing
        failed |= batch.failed
    carried: set[int] = set()
    count = 0
    for numbers in runs:
        carried.update(numbers)
        count += 1
    return Verdict(
        calls=len(asked),
        rows=len(asked - missing - failed),
        missing=len(missing),
        # An error undid its call; everything else was committed, also what got no row.
        lost=len(asked - failed - carried),
        errors=len(failed),
        deadlocks=deadlocks,
        supersedings=supersedings,
        runs=count,
        seconds=seconds,
    )
