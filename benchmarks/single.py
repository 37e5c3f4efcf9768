"""What is measured of ``add_job``, against bare statements and the published function."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator

from benchmarks import sql
from benchmarks.cases import PAYLOAD, QUEUE, TASK, Params, Place, Places, bounds
from benchmarks.rounds import Case, Side

# Beyond the five calls that are planned anew, after which a plan may be kept.
WARM_UP = 12

# add_job changes the holders of so many keys in turn.
HELD_KEYS = 100


def cases(places: Places, calls: int) -> Iterator[Case]:
    """One call of ``add_job``, committed, its row read by the client."""

    def side(
        place: Place, text: str, params: Callable[[int], Params], holders: int, running: bool
    ) -> Side:
        cursor = place.connection.cursor()
        text = text.format(s=place.schema)
        warm_up = [params(number) for number in range(WARM_UP)]
        counted = [params(number) for number in range(WARM_UP, WARM_UP + calls)]

        def call(params: list[Params]) -> float:
            taken = []
            for values in params:
                begin = time.perf_counter()
                cursor.execute(text, values)
                cursor.fetchall()
                taken.append(time.perf_counter() - begin)
            # The median: a call that others interrupted says nothing.
            return statistics.median(taken) * len(taken)

        def prepare() -> None:
            place.reset(holders, running)
            call(warm_up)

        return Side(prepare, lambda: call(counted), place.backend)

    def case(
        name: str,
        kind: str,
        last: Callable[[Place | None, int], Params],
        *,
        holders: int = 0,
        running: bool = False,
        limits: tuple[float | None, float | None],
    ) -> Case:
        def ours(place: Place) -> Side:
            make = lambda number: [TASK, PAYLOAD, *last(None, number)]  # noqa: E731
            return side(place, sql.ADD_JOB[kind], make, holders, running)

        def bare(place: Place) -> Side:
            make = lambda number: [place.task_id, PAYLOAD, *last(place, number)]  # noqa: E731
            return side(place, sql.BARE[kind], make, holders, running)

        return Case(
            name=f"add_job, {name}",
            unit="call",
            each=calls,
            sides=places.sides(ours, None if running else bare),
            comparisons=bounds(places, *limits),
        )

    yield case("no queue", "no queue", lambda place, number: [], limits=(1.7, 4))
    yield case(
        "known queue",
        "queue",
        lambda place, number: [QUEUE if place is None else place.queue_id],
        limits=(1.7, 4),
    )
    yield case("key, new", "key", lambda place, number: [f"key {number}"], limits=(1.9, 4))
    yield case(
        "key, held by a free job",
        "key",
        lambda place, number: [f"key {number % HELD_KEYS}"],
        holders=HELD_KEYS,
        limits=(1.9, 4),
    )
    yield case(
        "key, held by a running job",
        "key",
        lambda place, number: [f"key {number}"],
        holders=WARM_UP + calls,
        running=True,
        limits=(None, None),
    )
