"""The first call in a session, as a request makes it whose connection is not kept."""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks import sql
from benchmarks.bulk import Keys, literal
from benchmarks.cases import PAYLOAD, TASK, Params, Place, Places
from benchmarks.rounds import Case, Comparison, Side


def cases(places: Places, count: int) -> Iterator[Case]:
    """To compile the function and to plan its statements is in these times; to connect is not."""
    keys: Keys = [f"key {n}" for n in range(count)]
    calls: dict[str, tuple[str, Params]] = {
        "add_job, no queue": (sql.ADD_JOB["no queue"], [TASK, PAYLOAD]),
        f"add_jobs, {count} specs, new keys": (sql.ADD_JOBS, [literal(keys)]),
    }
    for name, (text, params) in calls.items():
        yield Case(
            name=f"first call of a session: {name}",
            unit="call",
            each=1,
            sides={
                side: _side(place, text, params)
                for side, place in (("ours", places.ours), ("published", places.published))
                if place is not None
            },
            comparisons=[Comparison("published", "ours")] if places.published else [],
        )


def _side(place: Place, text: str, params: Params) -> Side:
    text = text.format(s=place.schema)

    def prepare() -> None:
        place.reset()
        place.reconnect()

    def run() -> float:
        begin = time.perf_counter()
        place.connection.execute(text, params).fetchall()
        return time.perf_counter() - begin

    return Side(prepare, run, place.backend)
