"""Values at the edge of what the columns hold go all the way, and harm no job beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pytest

from django_graphile_worker import (
    TaskContext,
    complete_jobs,
    enqueue,
    enqueue_many,
    permanently_fail_jobs,
    remove_job,
    reschedule_jobs,
)
from django_graphile_worker.models import Job, JobError, KeyConflict
from tests.living import enlist
from tests.waiting import eventually
from tests.worker.conftest import StartPool
from tests.worker.tools import Queue, register

WITHIN = 20
BEYOND = 2**31


@pytest.fixture
def large_ids(queue: Queue) -> Iterator[None]:
    """Let new jobs have ids beyond 2^31."""
    text = "select setval(pg_get_serial_sequence(%s, 'id'), %s) as id"
    table = queue.name("_private_jobs").as_string(queue.session)
    last = queue.query("select nextval(pg_get_serial_sequence(%s, 'id')) as id", [table])[0]["id"]
    queue.query(text, [table, 2**40])
    yield
    queue.query(text, [table, last])


def gone(queue: Queue, *others: int) -> None:
    """Only these jobs are left, and nothing is locked."""
    rows = queue.query("select id from {jobs} order by id")
    assert [row["id"] for row in rows] == sorted(others)
    assert queue.locks() == 0


@pytest.mark.usefixtures("large_ids")
def test_ids_beyond_32_bits_go_all_the_way(queue: Queue, start_pool: StartPool) -> None:
    seen: list[int] = []

    def succeed(context: TaskContext) -> None:
        seen.append(context.job.id)

    async def succeed_async(context: TaskContext) -> None:
        seen.append(context.job.id)

    def fail(context: TaskContext) -> None:
        raise ValueError(context.job.id)

    added = [
        enqueue("succeed"),
        *enqueue_many([("succeed", None), ("succeed_async", None)]),
        enqueue("succeed", queue_name="lane"),
    ]
    failing = enqueue("fail", max_attempts=1)
    running = start_pool(register(succeed, succeed_async, fail), poll_interval=0.05)
    eventually(lambda: gone(queue, failing.id), WITHIN)
    assert running.stop() == 0
    assert sorted(seen) == sorted(job.id for job in added)
    assert min(seen) > BEYOND
    assert Job.objects.failed().get().pk == failing.id
    assert JobError.objects.get().job_id == failing.id


@pytest.mark.usefixtures("large_ids")
def test_ids_beyond_32_bits_are_given_back_rescued_and_superseded(
    queue: Queue, start_pool: StartPool
) -> None:
    held = enqueue("held", job_key="k")
    queue.query("update {jobs} set locked_by = 'dead', locked_at = now(), attempts = 1")
    enlist(queue.session, queue.schema, "dead")
    queue.query("update {workers} set dead_at = now() where worker_id = 'dead'")
    successor = enqueue("held", job_key="k")
    assert KeyConflict.objects.get().superseded_job_id == held.id > BEYOND
    running = start_pool(
        register(other=lambda: None), poll_interval=0.05, heartbeat=0.1, stale_after=0.3
    )
    eventually(lambda: _unlocked(queue), WITHIN)
    assert running.stop() == 0
    assert {job.id for job in reschedule_jobs([successor.id], priority=3)} == {successor.id}
    assert {job.id for job in permanently_fail_jobs([successor.id], "why")} == {successor.id}
    assert {job.id for job in complete_jobs([successor.id, held.id])} == {successor.id, held.id}
    last = enqueue("held", job_key="k")
    removed = remove_job("k")
    assert removed is not None
    assert removed.id == last.id > BEYOND


def _unlocked(queue: Queue) -> None:
    assert queue.locks() == 0


TIMES = ["-infinity", "4713-01-01 BC", "0001-01-01 00:00+00", "0001-06-01 00:00+00"]


@pytest.mark.parametrize("failing", [False, True], ids=["succeeding", "failing"])
def test_a_job_of_long_ago_runs_and_is_tried_again(
    queue: Queue, start_pool: StartPool, failing: bool
) -> None:
    seen: list[datetime] = []

    def task(context: TaskContext) -> None:
        seen.append(context.job.run_at)
        if failing:
            raise ValueError("no")

    jobs = [queue.add("task", run_at=time) for time in TIMES]
    never = queue.add("task", run_at="infinity")
    later = queue.add("task", run_at="9999-12-31 23:59:59+00")
    running = start_pool(register(task), poll_interval=0.05)
    if failing:
        eventually(lambda: _failed_once(queue, jobs), WITHIN)
    else:
        eventually(lambda: gone(queue, never, later), WITHIN)
    assert running.stop() == 0
    assert len(seen) == len(jobs)
    assert {time.year for time in seen} == {1}
    if failing:
        due = queue.query(
            "select count(*) as jobs from {jobs} where id = any(%s)"
            " and run_at between now() - interval '1 minute' and now() + interval '1 minute'",
            [jobs],
        )
        assert due == [{"jobs": len(jobs)}]


def _failed_once(queue: Queue, jobs: list[int]) -> None:
    rows = queue.query("select attempts from {jobs} where id = any(%s)", [jobs])
    assert [row["attempts"] for row in rows] == [1] * len(jobs)
    assert queue.locks() == 0


def depends(value: Any) -> bool:
    """How deep a Python can read depends on its version."""
    return True


# What json columns take and Python's dictionaries and strings do not, or not as it was meant.
FOREIGN: dict[str, tuple[str, Callable[[Any], bool] | None]] = {
    "a NUL escape": (r'"\u0000"', lambda value: value == "\0"),
    "a NUL escape as a name": (r'{"payload": {"\u0000": 1}}', lambda value: value == {"\0": 1}),
    "a lone surrogate": (r'"\ud800"', lambda value: value == "\ud800"),
    "beyond double": ("1e400", None),
    "a name twice": ('[{"a": 1, "a": 2}]', lambda value: value == [{"a": 2}]),
    "deep": ("[" * 5_000 + "]" * 5_000, depends),
    "a long number": ("1" * 10_000, None),
    "a number": ("7", lambda value: value == 7),
    "null": ("null", lambda value: value is None),
    "true": ("true", lambda value: value is True),
    "a string": ('"x"', lambda value: value == "x"),
}


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_json_of_other_languages_runs_or_fails_and_harms_nobody(
    queue: Queue, start_pool: StartPool, asynchronous: bool
) -> None:
    """All in one batch, with a job of ours before and behind each."""
    seen: dict[int, Any] = {}

    def task(context: TaskContext, payload: Any = None) -> None:
        seen[context.job.id] = payload

    async def task_async(context: TaskContext, payload: Any = None) -> None:
        seen[context.job.id] = payload

    jobs: dict[str, int] = {}
    ours = []
    for name, (text, _expected) in FOREIGN.items():
        ours.append(queue.add("task", {"payload": "ours"}))
        jobs[name] = _add_text(queue, text)
    ours.append(queue.add("task", {"payload": "ours"}))
    running = start_pool(register(task=task_async if asynchronous else task), poll_interval=0.05)

    eventually(lambda: _all_ended(queue, set(jobs.values())), WITHIN)
    assert running.stop() == 0
    assert {job: seen.get(job) for job in ours} == dict.fromkeys(ours, "ours")
    errors = {row["id"]: row["last_error"] for row in _left(queue)}
    for name, (_text, expected) in FOREIGN.items():
        job = jobs[name]
        if job in errors:
            assert expected in (None, depends), name
            assert "InvalidJob: payload " in errors[job], name
        else:
            assert expected is not None, name
            assert expected(seen[job]), (name, seen[job])
    # What is left can be read, whatever it is.
    assert {job.pk for job in Job.objects.all()} == {row["id"] for row in _left(queue)}


def _add_text(queue: Queue, text: str) -> int:
    rows = queue.query("select id from {add_job}('task', payload => %s::json)", [text])
    return int(rows[0]["id"])


def _left(queue: Queue) -> list[dict[str, Any]]:
    return queue.query("select id, attempts, last_error from {jobs} order by id")


def _all_ended(queue: Queue, jobs: set[int]) -> None:
    left = _left(queue)
    assert {row["id"] for row in left} <= jobs, left
    assert all(row["attempts"] == 1 for row in left), left
    assert queue.locks() == 0
