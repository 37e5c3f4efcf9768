"""What runs every few seconds stays quick, whatever the tables hold."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from django_graphile_worker.statements import workers
from django_graphile_worker.statements.base import Statement
from tests.database.lives import WATCH, Lives
from tests.database.stage import Stage

A = "django:test:5:a"


@pytest.fixture
def lives(stage: Stage) -> Lives:
    lives = Lives(stage)
    lives.born(A, WATCH)
    return lives


@pytest.fixture
def _many_failed_jobs(stage: Stage) -> None:
    stage.make_job()
    stage.query(
        "insert into {jobs} (task_id, attempts) select task_id, 25 from {jobs},"
        " generate_series(1, 20000)"
    )
    stage.query(
        "insert into {queues} (queue_name) select 'q' || n from generate_series(1, 2000) as n"
    )


def rows_read(plan: str, table: str) -> int:
    """How many rows of a table a plan has read, those that it threw away included."""
    total = 0
    lines = plan.splitlines()
    for number, line in enumerate(lines):
        if not re.search(rf"(Scan|Scan using \S+) on {table}\b", line):
            continue
        found = re.search(r"actual rows=([\d.]+) loops=(\d+)", line)
        if found is None:
            assert "never executed" in line, line
            continue
        total += round(float(found[1])) * int(found[2])
        for below in lines[number + 1 : number + 4]:
            if removed := re.search(r"Rows Removed by (?:Filter|Index Recheck): (\d+)", below):
                total += int(removed[1]) * int(found[2])
    return total


STATEMENTS: dict[str, Callable[[str], Statement[Any]]] = {
    "sweep": lambda schema: workers.rescue(schema=schema, by=WATCH),
    "sweep with orphans": lambda schema: workers.rescue(schema=schema, by=WATCH, orphans=True),
    "sweep with foreign": lambda schema: workers.rescue(schema=schema, by=WATCH, foreign=True),
    "sweep of the dead": lambda schema: workers.rescue(schema=schema, worker_ids=[A]),
    "beat": lambda schema: workers.beat(schema=schema, worker_ids=[WATCH]),
    "renew": lambda schema: workers.renew_locks(schema=schema, worker_ids=[WATCH]),
    "forget": lambda schema: workers.forget_workers(schema=schema),
    "leave": lambda schema: workers.leave_worker(schema=schema, worker_id=A),
}


@pytest.mark.usefixtures("_many_failed_jobs")
@pytest.mark.parametrize("analyzed", [False, True], ids=["", "analyzed"])
@pytest.mark.parametrize("what", STATEMENTS)
def test_failed_jobs_are_not_read(stage: Stage, lives: Lives, what: str, analyzed: bool) -> None:
    if analyzed:
        stage.query("analyze {jobs}")
        stage.query("analyze {queues}")
    session = stage.session()
    with session.transaction():
        stage.run(workers.prepare_upkeep(seconds=5, local=True), session)
        plan = lives.explain(STATEMENTS[what](stage.schema), session)
    assert rows_read(plan, "_private_jobs") <= 10, plan
    if what in ("sweep", "beat", "renew"):
        # Nothing to be looked for: not even the queues are read.
        assert rows_read(plan, "_private_job_queues") == 0, plan


def test_errors_are_bounded_by_count(stage: Stage, lives: Lives) -> None:
    stage.query(
        "insert into {errors} (job_id, task_identifier, attempt, max_attempts, error)"
        " select n, 'task', 1, 1, 'boom' from generate_series(1, 50) as n"
    )

    def trim() -> int:
        return stage.run(workers.trim_job_errors(schema=stage.schema, keep=10, most=25))

    assert [trim(), trim(), trim()] == [25, 15, 0]
    assert [error.job_id for error in lives.errors()] == list(range(41, 51))


def test_errors_that_somebody_reads_under_a_lock_are_trimmed_later(
    stage: Stage, lives: Lives
) -> None:
    stage.query(
        "insert into {errors} (job_id, task_identifier, attempt, max_attempts, error)"
        " select n, 'task', 1, 1, 'boom' from generate_series(1, 12) as n"
    )
    session = stage.session()
    stage.query("select from {errors} where job_id = 1 for update", session=session)
    assert stage.run(workers.trim_job_errors(schema=stage.schema, keep=10)) == 1
    session.rollback()
    assert stage.run(workers.trim_job_errors(schema=stage.schema, keep=10)) == 1


def test_trimming_reads_only_what_it_trims(stage: Stage, lives: Lives) -> None:
    stage.query(
        "insert into {errors} (job_id, task_identifier, attempt, max_attempts, error)"
        " select n, 'task', 1, 1, 'boom' from generate_series(1, 5000) as n"
    )
    session = stage.session()
    with session.transaction():
        stage.run(workers.prepare_upkeep(seconds=5, local=True), session)
        statement = workers.trim_job_errors(schema=stage.schema, keep=10_000)
        plan = lives.explain(statement, session)
    assert rows_read(plan, "django_job_errors") <= 2, plan
