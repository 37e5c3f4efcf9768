"""Shows results: for a terminal, as Markdown for the documentation, as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.rounds import Comparison, Result

SIDES = ("ours", "bare", "published", "bare there")
PAIRS = (
    ("ours", "bare", "ours ÷ bare"),
    ("ours", "bare there", "ours ÷ bare, published table"),
    ("published", "ours", "published ÷ ours"),
)


def spread(ratios: Sequence[float]) -> str:
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def ratio(result: Result, of: Comparison) -> str:
    """The ratio by time and by CPU, its bound, and whether that was missed."""
    shown = spread(result.ratios(of))
    if cpu := result.ratios(of, "cpu"):
        shown += f", CPU {statistics.median(cpu):.2f}"
    if of.limit is not None:
        shown += f"; {of.bound()}" + ("" if of not in result.missed() else " MISSED")
    return shown


def conditions(result: Result) -> str:
    others = [cores for cores in result.others if cores is not None]
    busy = f"others used {statistics.median(others):.2f} cores" if others else "others not known"
    return f"{len(result.others)} rounds, {busy}, load before {result.load}"


def text(result: Result) -> str:
    """A result as lines for a terminal."""
    case = result.case
    lines = [f"{case.name} [{', '.join(f'{k} {v}' for k, v in result.conditions.items())}]"]
    for side in case.sides:
        cpu = result.microseconds(side, "cpu")
        shown = f"{result.microseconds(side):10.1f} µs per {case.unit}"
        lines.append(f"  {side:<32}{shown}" + ("" if cpu is None else f", CPU {cpu:.1f}"))
    for of in case.comparisons:
        lines.append(f"  {of.over + ' ÷ ' + of.under:<32}{'':4}{ratio(result, of)}")
    return "\n".join([*lines, f"  {conditions(result)}"])


def markdown(results: Sequence[Result], about: Mapping[str, str]) -> str:
    """All results as tables: first the cases with the usual sides, then the others."""
    usual = [result for result in results if "bare" in result.case.sides or _superseding(result)]
    return "\n".join(
        [
            *(f"- {name}: {value}" for name, value in about.items()),
            "",
            *_table(
                ["", "commit", *(f"{side}, µs" for side in SIDES), *(pair[2] for pair in PAIRS)],
                (_usual_row(result) for result in usual),
            ),
            "",
            *_table(
                ["", "commit", "µs", "ratio"],
                (row for result in results if result not in usual for row in _other_rows(result)),
            ),
            "",
            *_table(
                ["", "commit", "conditions"],
                ([r.case.name, r.conditions["commit"], conditions(r)] for r in results),
            ),
        ]
    )


def _superseding(result: Result) -> bool:
    return set(result.case.sides) <= set(SIDES)


def _usual_row(result: Result) -> Iterable[str]:
    yield result.case.name
    yield result.conditions["commit"]
    for side in SIDES:
        here = side in result.case.sides
        yield f"{result.microseconds(side):.1f}" if here else ""
    known = {(of.over, of.under): of for of in result.case.comparisons}
    for over, under, _ in PAIRS:
        here = over in result.case.sides and under in result.case.sides
        yield ratio(result, known.get((over, under), Comparison(over, under))) if here else ""


def _other_rows(result: Result) -> Iterable[Iterable[str]]:
    for side in result.case.sides:
        found = [of for of in result.case.comparisons if of.over == side]
        yield [
            f"{result.case.name}: {side}",
            result.conditions["commit"],
            f"{result.microseconds(side):.1f} per {result.case.unit}",
            "; ".join(f"÷ {of.under}: {ratio(result, of)}" for of in found),
        ]


def _table(head: Sequence[str], rows: Iterable[Iterable[str]]) -> Iterable[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def document(results: Sequence[Result], about: Mapping[str, str]) -> dict[str, Any]:
    """All results with the time of every round, ready for JSON."""
    return {
        "about": dict(about),
        "results": [
            {
                "name": result.case.name,
                "conditions": dict(result.conditions),
                "load": result.load,
                "others": result.others,
                "unit": result.case.unit,
                "each": result.case.each,
                "taken": {
                    side: [taken._asdict() for taken in rounds]
                    for side, rounds in result.taken.items()
                },
                "comparisons": [
                    {
                        "over": of.over,
                        "under": of.under,
                        "bound": of.bound(),
                        "ratios": result.ratios(of),
                        "missed": of in result.missed(),
                    }
                    for of in result.case.comparisons
                ],
            }
            for result in results
        ],
    }
