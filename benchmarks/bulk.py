"""What is measured of ``add_jobs``: many specs in one call, and the worst that they can meet."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks import sql
from benchmarks.cases import PAYLOAD, TASK, Place, Places, bounds
from benchmarks.rounds import Case, Comparison, Side

# Beyond the five calls of one size that are planned anew.
SETTLE = 6

Keys = list[str | None]


def literal(keys: Keys) -> str:
    """One spec for each key, as the text of a ``job_spec[]``, ready before the clock starts."""
    payload = PAYLOAD.replace('"', r"\"\"")
    specs = [f'"({TASK},\\"{payload}\\",,,,{key or ""},,)"' for key in keys]
    return "{" + ",".join(specs) + "}"


def side(
    place: Place, keys: Keys, reset: Callable[[], None], *, bare: bool = False, settle: int = SETTLE
) -> Side:
    """One call for all keys, its rows read by the client."""
    text = (sql.BARE_MANY if bare else sql.ADD_JOBS).format(s=place.schema)
    head: list[Any] = [place.task_id] if bare else []
    params, one = [*head, literal(keys)], [*head, literal(keys[:1])]
    cursor = place.connection.cursor()
    left = [settle]

    def run() -> float:
        begin = time.perf_counter()
        cursor.execute(text, params)
        cursor.fetchall()
        return time.perf_counter() - begin

    def prepare() -> None:
        while left[0]:
            left[0] -= 1
            reset()
            run()
        reset()
        # Emptying the table has thrown the plans away. To make them is not what is measured.
        with place.connection.transaction(force_rollback=True):
            cursor.execute(text, one)
            cursor.fetchall()

    return Side(prepare, run, place.backend)


def many(places: Places, count: int) -> Iterator[Case]:
    """``count`` specs without keys, with new keys, and with keys whose jobs wait."""
    cases: dict[str, tuple[Keys, int]] = {
        "no keys": ([None] * count, 0),
        "new keys": ([f"key {n}" for n in range(count)], 0),
        "keys held by free jobs": ([f"key {n}" for n in range(count)], count),
    }
    for name, (keys, holders) in cases.items():

        def make(place: Place, bare: bool, keys: Keys = keys, holders: int = holders) -> Side:
            return side(place, keys, lambda: place.reset(holders), bare=bare)

        yield Case(
            name=f"add_jobs, {count:,} specs, {name}",
            unit="spec",
            each=count,
            sides=places.sides(lambda place: make(place, False), lambda place: make(place, True)),
            comparisons=bounds(places, 1.6, 1.0),
        )


def worst(places: Places, count: int) -> Case:
    """What a large keyed call may cost at worst, as a multiple of the same call with new keys."""
    keys: Keys = [f"key {n}" for n in range(count)]
    shared: Keys = [f"key {n % 10}" for n in range(count)]

    def make(place: Place, keys: Keys, holders: int = 0) -> Side:
        return side(place, keys, lambda: place.reset(holders, running=True), settle=0)

    sides = {
        "new keys": make(places.ours, keys),
        "every holder runs": make(places.ours, keys, count),
        "10 keys shared": make(places.ours, shared),
    }
    if places.published is not None:
        sides["published, new keys"] = make(places.published, keys)
        sides["published, every holder runs"] = make(places.published, keys, count)
    return Case(
        name=f"add_jobs, {count:,} specs with keys",
        unit="spec",
        each=count,
        sides=sides,
        comparisons=[
            Comparison("every holder runs", "new keys", 5),
            Comparison("10 keys shared", "new keys", 5),
        ],
    )
