"""`get_jobs`: which jobs a worker takes, in which order, and what it leaves alone."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from django_graphile_worker.jobs import LockedJob, moment
from django_graphile_worker.statements import worker as statements
from tests.conftest import Connect
from tests.living import ME as ME
from tests.worker.conftest import queue as queue
from tests.worker.tools import Queue, Session, run


def fetch(queue: Queue, session: Session | None = None, **options: Any) -> list[LockedJob]:
    values: dict[str, Any] = {"worker_id": ME, "identifiers": ["noop"], "slots": 10, "room": 10}
    return run(
        session or queue.session,
        statements.get_jobs(schema=queue.schema, **{**values, **options}),
    )


def ids(jobs: list[LockedJob]) -> list[int]:
    return [job.id for job in jobs]


def ago(seconds: float) -> datetime:
    return datetime.now(UTC) - timedelta(seconds=seconds)


def test_the_lowest_priority_comes_first_then_the_earliest_run_at(queue: Queue) -> None:
    late = queue.add(run_at=ago(10))
    urgent = queue.add(run_at=ago(5), priority=-1)
    early = queue.add(run_at=ago(20))
    idle = queue.add(run_at=ago(90), priority=1)

    assert ids(fetch(queue)) == [urgent, early, late, idle]


def test_a_taken_job_is_locked_and_its_attempt_counted(queue: Queue) -> None:
    job_id = queue.add(payload={"n": 1}, job_key="k", flags=["a", "b"], priority=3)

    (job,) = fetch(queue)

    row = queue.job(job_id)
    assert row is not None
    assert (row["locked_by"], row["attempts"]) == (ME, 1)
    assert job.locked_at is None  # it has no queue
    assert (job.id, job.task_identifier, job.payload) == (job_id, "noop", '{"n": 1}')
    assert (job.key, job.flags, job.priority) == ("k", ["a", "b"], 3)
    assert (job.attempts, job.max_attempts, job.queue_id) == (1, 25, None)
    assert moment(job.run_at) == row["run_at"]


def test_what_is_not_due_not_available_or_not_served_stays_untouched(queue: Queue) -> None:
    future = queue.add(run_at=datetime.now(UTC) + timedelta(hours=1))
    failed = queue.add(max_attempts=1)
    queue.set(failed, attempts=1)
    locked = queue.add()
    queue.set(locked, locked_by="somebody", locked_at=ago(1))
    foreign = queue.add("served_elsewhere")
    before = queue.jobs()

    assert fetch(queue) == []
    assert queue.jobs() == before
    assert {future, failed, locked, foreign} == {row["id"] for row in before}


def test_time_can_be_moved(queue: Queue) -> None:
    job_id = queue.add(run_at=datetime.now(UTC) + timedelta(hours=1))

    assert fetch(queue) == []
    assert ids(fetch(queue, now=datetime.now(UTC) + timedelta(hours=2))) == [job_id]


def test_a_row_that_somebody_holds_is_passed_over_without_waiting(
    queue: Queue, connect: Connect
) -> None:
    held, free = queue.add(run_at=ago(20)), queue.add(run_at=ago(10))
    caller = connect(autocommit=False)
    queue.query("select from {jobs} where id = %s for update", [held], session=caller)
    queue.session.execute("set lock_timeout = '1s'")

    assert ids(fetch(queue)) == [free]
    caller.rollback()
    assert ids(fetch(queue)) == [held]


def test_two_fetches_at_once_share_the_jobs(queue: Queue, connect: Connect) -> None:
    all_ids = [queue.add(run_at=ago(20 - n)) for n in range(8)]
    one, other = connect(autocommit=False), connect(autocommit=False)

    first = fetch(queue, one, slots=4, room=4)
    second = fetch(queue, other, slots=10, room=10)

    one.commit()
    other.commit()
    assert ids(first) == all_ids[:4]
    assert ids(second) == all_ids[4:]


@pytest.mark.parametrize(("slots", "room"), [(3, 3), (3, 5), (0, 4)])
def test_never_more_than_there_is_room_for(queue: Queue, slots: int, room: int) -> None:
    for n in range(9):
        queue.add(run_at=ago(20 - n))

    assert len(fetch(queue, slots=slots, room=room)) == room


def test_nothing_with_a_key_is_taken_beyond_the_free_slots(queue: Queue) -> None:
    first = queue.add(run_at=ago(50), job_key="a")
    second = queue.add(run_at=ago(40))
    queue.add(run_at=ago(30), job_key="b")
    behind = queue.add(run_at=ago(20))

    # Two begin at once. The next has a key: nothing is taken ahead past it, or it would starve
    # while the slots are kept busy with what stands behind it.
    assert ids(fetch(queue, slots=2, room=9)) == [first, second]
    assert fetch(queue, slots=0, room=9) == []
    assert behind not in ids(fetch(queue, slots=1, room=1))
    assert ids(fetch(queue, slots=0, room=9)) == [behind]


def test_what_is_taken_ahead_stands_before_the_first_key(queue: Queue) -> None:
    ahead = [queue.add(run_at=ago(50 - n)) for n in range(5)]
    queue.add(run_at=ago(20), job_key="b")
    queue.add(run_at=ago(10))

    assert ids(fetch(queue, slots=2, room=9)) == ahead


def test_a_key_is_not_taken_ahead_in_place_of_a_row_that_somebody_holds(
    queue: Queue, connect: Connect
) -> None:
    held = queue.add(run_at=ago(50))
    free = queue.add(run_at=ago(40))
    queue.add(run_at=ago(30), job_key="k")
    caller = connect(autocommit=False)
    queue.query("select from {jobs} where id = %s for update", [held], session=caller)

    assert ids(fetch(queue, slots=0, room=9)) == [free]
    caller.rollback()


def test_a_task_row_that_is_made_again_is_picked_up(queue: Queue) -> None:
    queue.add()
    assert len(fetch(queue)) == 1
    queue.query("delete from {tasks}")
    job_id = queue.add()

    assert ids(fetch(queue)) == [job_id]


def test_only_tasks_served_here_are_taken_when_none_is_known_yet(queue: Queue) -> None:
    queue.add("other")

    assert fetch(queue, identifiers=[]) == []
    assert fetch(queue, identifiers=["noop"]) == []


def test_a_value_that_python_cannot_hold_does_not_spoil_the_batch(queue: Queue) -> None:
    queue.add(run_at="-infinity")
    queue.query(
        "update {jobs} set flags = '[1]', created_at = 'infinity', payload = %s", ['"\\u0000"']
    )
    queue.add()

    first, second = fetch(queue)

    assert first.payload == '"\\u0000"'
    assert first.flags is None
    assert moment(first.run_at).year == 1
    assert moment(first.created_at).year == 9999
    assert moment(second.created_at).year > 2000


@pytest.mark.parametrize("by_lanes", [False, True])
@pytest.mark.parametrize("believed", ["full", "all in the future", "nearly empty"])
def test_the_line_is_read_along_the_index_whatever_the_statistics_say(
    queue: Queue, connect: Connect, believed: str, by_lanes: bool
) -> None:
    def fill(count: int, day: str = "yesterday", attempts: int = 0) -> None:
        queue.query(
            "insert into {jobs} (task_id, attempts, run_at)"
            " select tasks.id, %s, %s::timestamptz + n * interval '1 second'"
            " from {tasks} tasks, generate_series(1, %s) n",
            [attempts, day, count],
        )

    queue.add()
    match believed:
        case "full":
            fill(3_000)
        case "all in the future":
            fill(3_000, "tomorrow")
        case "nearly empty":
            fill(5_000, "tomorrow", attempts=25)
            fill(20)
    queue.query("analyze {jobs}")
    queue.query("delete from {jobs} where attempts = 25")
    fill(5_000)
    session = connect(autocommit=False)
    run(session, statements.set_up_worker(False))
    statement = statements.get_jobs(
        schema=queue.schema,
        worker_id=ME,
        identifiers=["noop"],
        slots=5,
        room=50,
        by_lanes=by_lanes,
    )
    rows = session.execute(b"explain (analyze) " + statement.text.encode(), statement.params)
    plan = "\n".join(row[0] for row in rows)
    session.rollback()

    assert "LockRows" in plan
    assert "Seq Scan on _private_jobs" not in plan
    assert "JIT" not in plan
    # No part of it has touched all the jobs to find the first fifty.
    assert not re.search(r"actual time=\S+ rows=\d{4}", plan), plan


def test_another_workers_locks_are_not_unknown_jobs_of_ours(queue: Queue) -> None:
    known, lost = queue.add(run_at=ago(20), job_key="k"), queue.add(run_at=ago(10))
    fetch(queue)
    queue.add(run_at=ago(5))
    fetch(queue, worker_id="somebody")

    (found,) = run(
        queue.session,
        statements.get_unknown_jobs(schema=queue.schema, worker_id=ME, known_ids=[known]),
    )

    assert (found.id, found.attempts) == (lost, 1)


def test_an_unknown_job_keeps_the_key_that_was_superseded(queue: Queue) -> None:
    queue.add(job_key="k")
    (taken,) = fetch(queue)
    queue.add(job_key="k")

    (found,) = run(
        queue.session,
        statements.get_unknown_jobs(schema=queue.schema, worker_id=ME, known_ids=[]),
    )

    assert (found.id, found.key) == (taken.id, "k")
    assert found.locked_at == taken.locked_at


@pytest.mark.parametrize("state", ["due", "future", "locked queue", "unserved"])
def test_whether_due_jobs_exist_is_told_past_row_locks(
    queue: Queue, connect: Connect, state: str
) -> None:
    hour = timedelta(hours=1 if state == "future" else -1)
    task = "other" if state == "unserved" else "noop"
    job_id = queue.add(task, run_at=datetime.now(UTC) + hour, queue_name="lane")
    if state == "locked queue":
        queue.query("update {queues} set locked_at = now(), locked_by = 'somebody'")
    caller = connect(autocommit=False)
    queue.query("select from {jobs} where id = %s for update", [job_id], session=caller)

    assert run(
        queue.session,
        statements.due_jobs_exist(schema=queue.schema, identifiers=["noop"]),
    ) is (state == "due")
    caller.rollback()
