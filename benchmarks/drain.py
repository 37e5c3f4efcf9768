"""What our index of locked rows costs a worker: jobs taken and completed with it and without."""

from __future__ import annotations

import time

from benchmarks import sql
from benchmarks.cases import PAYLOAD, TASK, Place
from benchmarks.rounds import Case, Comparison, Side
from django_graphile_worker.statements import worker

WORKER = "worker"


def case(place: Place, schema: str, jobs: int, batch: int) -> Case:
    """The worker's own statements, one after the other on one session, until nothing is left.

    ``schema`` is the schema's name, unquoted.
    """
    cursor = place.connection.cursor()
    fetch = worker.get_jobs(
        schema=schema, worker_id=WORKER, identifiers=[TASK], slots=batch, room=batch
    )

    def run() -> float:
        begin = time.perf_counter()
        left = jobs
        while left:
            with place.connection.transaction():
                worker.set_up_worker(False).run(cursor)
                taken = fetch.run(cursor)
            ended = worker.complete_jobs(schema=schema, worker_id=WORKER, jobs=taken).run(cursor)
            if not taken or ended.count != len(taken):
                raise RuntimeError(f"took {len(taken)} jobs and completed {ended.count}")
            left -= ended.count
        return time.perf_counter() - begin

    def prepare(indexed: bool) -> None:
        place.execute(sql.EMPTY)
        place.execute(sql.NO_LOCKED_INDEX)
        if indexed:
            place.execute(sql.LOCKED_INDEX)
        place.execute(sql.JOBS, [place.task_id, PAYLOAD, jobs])
        place.execute(sql.SETTLE)

    return Case(
        name=f"{jobs:,} jobs taken and completed, {batch} at a time",
        unit="job",
        each=jobs,
        sides={
            "with the index": Side(lambda: prepare(True), run, place.backend),
            "without": Side(lambda: prepare(False), run, place.backend),
        },
        comparisons=[Comparison("with the index", "without")],
    )
