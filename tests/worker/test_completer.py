"""The completer: never waits for a row that somebody holds, forgets nothing, comes back."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

import psycopg
import pytest

from django_graphile_worker.jobs import Outcome
from django_graphile_worker.worker.completer import Completer
from django_graphile_worker.worker.connections import Link
from django_graphile_worker.worker.endings import Ending, How, Writer
from tests.conftest import Connect
from tests.database.test_get_jobs import ME, fetch
from tests.living import identity
from tests.waiting import eventually
from tests.worker.tools import Queue

WITHIN = 10

MakeCompleter = Callable[..., Completer]


@pytest.fixture
def written() -> SimpleQueue[bool]:
    """What `on_written` was told."""
    return SimpleQueue()


@pytest.fixture
def make_completer(queue: Queue, written: SimpleQueue[bool]) -> Iterator[MakeCompleter]:
    made: list[Completer] = []

    def make_completer(**options: Any) -> Completer:
        values: dict[str, Any] = {
            "link": Link("default", "completer"),
            "schema": queue.schema,
            "identity": identity(),
            "last_wait": WITHIN,
            "on_written": written.put,
            "on_end": lambda part, error: None,
        }
        completer = Completer(**{**values, **options})
        completer.written.watch()
        made.append(completer)
        completer.start()
        return completer

    yield make_completer
    for completer in made:
        completer.hurry()
        completer.stop()
        assert completer.join(WITHIN)


@pytest.fixture
def completer(make_completer: MakeCompleter) -> Completer:
    return make_completer()


def test_what_succeeded_is_deleted_what_failed_is_kept(queue: Queue, completer: Completer) -> None:
    queue.add()
    failed = queue.add()
    returned = queue.add()
    jobs = fetch(queue)
    completer.add(Outcome(job=jobs[0]))
    completer.add(Outcome(job=jobs[1], error="boom"))
    completer.give_back([jobs[2]])

    eventually(lambda: check(completer.backlog == 0))
    rows = {row["id"]: row for row in queue.jobs()}
    assert rows.keys() == {failed, returned}
    assert (rows[failed]["last_error"], rows[failed]["attempts"]) == ("boom", 1)
    assert (rows[returned]["last_error"], rows[returned]["attempts"]) == (None, 0)
    assert queue.locks() == 0


def check(fact: bool) -> None:
    assert fact


def test_a_job_alone_is_written_at_once_and_many_in_batches(
    queue: Queue, completer: Completer
) -> None:
    for _ in range(700):
        queue.add()
    jobs = fetch(queue, slots=700, room=700)
    completer.add(Outcome(job=jobs[0]))
    assert len(completer.written.wait()) == 1
    for job in jobs[1:]:
        completer.add(Outcome(job=job))

    eventually(lambda: check(completer.backlog == 0))
    assert queue.jobs() == []


def test_a_queue_is_freed_though_a_caller_holds_its_jobs_row(
    queue: Queue, connect: Connect, completer: Completer, written: SimpleQueue[bool]
) -> None:
    first = queue.add(queue_name="lane", job_key="k")
    second = queue.add(queue_name="lane")
    (job,) = fetch(queue)
    caller = connect(autocommit=False)
    queue.add(job_key="k", session=caller)
    completer.add(Outcome(job=job))

    assert written.get(timeout=WITHIN) is True
    assert queue.queue("lane")["locked_by"] is None
    # The next of the queue may run while the first one's row is still there.
    (job,) = fetch(queue)
    assert job.id == second
    for _ in range(5):  # tries again and again, and leaves the new lock of the queue alone
        completer.written.wait()
    assert queue.queue("lane")["locked_at"] == job.locked_at
    assert [job.id for job in completer.jobs()] == [first]

    caller.rollback()
    eventually(lambda: check(queue.job(first) is None))
    assert queue.queue("lane")["locked_at"] == job.locked_at
    completer.add(Outcome(job=job))
    eventually(lambda: check(queue.locks() == 0))


def test_the_rest_goes_on_while_a_caller_holds_one_row(
    queue: Queue, connect: Connect, completer: Completer
) -> None:
    held = queue.add(job_key="k")
    (job,) = fetch(queue)
    caller = connect(autocommit=False)
    successor = queue.add(job_key="k", session=caller)
    completer.add(Outcome(job=job))
    for _ in range(20):
        queue.add()
        (other,) = fetch(queue)
        completer.add(Outcome(job=other))
    eventually(lambda: check([row["id"] for row in queue.jobs()] == [held]))

    caller.commit()
    eventually(lambda: check([row["id"] for row in queue.jobs()] == [successor]))
    eventually(lambda: check(queue.conflicts()[0]["outcome"] == "completed"))


@pytest.mark.parametrize("payload", [{}, [1]])
@pytest.mark.parametrize("how", How)
def test_the_record_of_a_superseding_tells_how_the_job_ended(
    queue: Queue, completer: Completer, how: How, payload: object
) -> None:
    superseded = queue.add(payload=payload, job_key="k")
    (job,) = fetch(queue)
    queue.add(job_key="k")
    if how is How.RETURNED:
        completer.give_back([job])
    else:
        completer.add(Outcome(job=job, error="boom" if how is How.FAILED else None))
    eventually(lambda: check(completer.backlog == 0))

    (record,) = queue.conflicts()
    # What was given back without items that somebody must work on has done its part.
    expected = "completed" if how is How.RETURNED and payload == {} else how.value
    assert record["outcome"] == expected
    assert (queue.job(superseded) is None) is (expected == "completed")


def test_a_job_that_is_not_ours_any_more_is_dropped_and_logged(
    queue: Queue, completer: Completer, caplog: pytest.LogCaptureFixture
) -> None:
    queue.add(queue_name="lane")
    (job,) = fetch(queue)
    queue.query("update {jobs} set locked_by = 'somebody'")
    queue.query("update {queues} set locked_by = 'somebody'")
    with caplog.at_level(logging.WARNING, "graphile_worker"):
        completer.add(Outcome(job=job))
        eventually(lambda: check(completer.backlog == 0))

    assert "was not this worker's any more" in caplog.text
    assert queue.locks() == 2
    assert len(queue.jobs()) == 1


def test_what_was_taken_under_a_name_that_is_dead_is_dropped_and_logged(
    queue: Queue, make_completer: MakeCompleter, caplog: pytest.LogCaptureFixture
) -> None:
    name = identity()
    completer = make_completer(identity=name)
    job_id = queue.add(queue_name="lane")
    (job,) = fetch(queue)
    with caplog.at_level(logging.WARNING, "graphile_worker"):
        name.worker_id = "somebody"
        completer.add(Outcome(job=job))
        eventually(lambda: check(completer.backlog == 0))

    assert f"Job {job_id} (noop) was taken by {ME}, which was declared dead" in caplog.text
    assert [record.job_id for record in caplog.records] == [job_id]  # type: ignore[attr-defined]
    assert queue.locks() == 2


def test_what_ended_under_a_dead_name_does_not_take_along_what_ended_under_the_new_one(
    queue: Queue, connect: Connect, completer: Completer
) -> None:
    job_id = queue.add(job_key="k")
    (job,) = fetch(queue)
    caller = connect(autocommit=False)
    queue.add(job_key="k", session=caller)
    completer.add(Outcome(job))
    completer.written.wait()
    completer.add(Outcome(job._replace(locked_by="a former name")))
    eventually(lambda: check([job.id for job in completer.jobs()] == [job_id]))

    caller.rollback()
    eventually(lambda: check(queue.job(job_id) is None))
    assert completer.backlog == 0


def test_it_comes_back_after_its_connection_was_cut(queue: Queue, completer: Completer) -> None:
    for _ in range(5):
        queue.add()
        (job,) = fetch(queue)
        completer.add(Outcome(job=job))
        eventually(lambda: check(completer.backlog == 0))
        queue.kill("completer")

    queue.add()
    (job,) = fetch(queue)
    completer.add(Outcome(job=job, error="boom"))
    eventually(lambda: check(completer.backlog == 0))
    assert queue.locks() == 0


def test_the_last_batch_waits_for_a_row_that_is_soon_free(
    queue: Queue, connect: Connect, completer: Completer
) -> None:
    queue.add(job_key="k")
    (job,) = fetch(queue)
    caller = connect(autocommit=False)
    queue.add(job_key="k", session=caller)
    completer.add(Outcome(job=job))
    completer.stop()
    for _ in range(3):
        completer.written.wait()
    assert not completer.join(0)

    caller.rollback()
    assert completer.join(WITHIN)
    assert queue.locks() == 0


@pytest.mark.parametrize("hurried", [True, False])
def test_the_last_wait_has_a_bound_and_the_job_is_named(
    queue: Queue,
    connect: Connect,
    make_completer: MakeCompleter,
    caplog: pytest.LogCaptureFixture,
    hurried: bool,
) -> None:
    completer = make_completer(last_wait=3_600 if hurried else 0.1)
    queue.add(job_key="k")
    (job,) = fetch(queue)
    caller = connect(autocommit=False)
    queue.add(job_key="k", session=caller)
    queue.add()
    (free,) = fetch(queue)
    completer.add(Outcome(job=job))
    completer.add(Outcome(job=free))
    completer.stop()
    if hurried:
        completer.written.wait()
        completer.hurry()
    assert completer.join(WITHIN)

    completer.report_unwritten()
    assert f"Job {job.id} (noop) was completed" in caplog.text
    assert f"Job {free.id} " not in caplog.text
    assert [job.id for job in completer.jobs()] == [job.id]
    caller.rollback()


def test_what_a_server_does_not_answer_to_is_reported_once(
    queue: Queue,
    make_completer: MakeCompleter,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked, answered = threading.Event(), threading.Event()
    held, free = queue.add(), queue.add()

    def stuck(*args: object) -> bool:
        asked.set()
        assert answered.wait(WITHIN)
        return False

    monkeypatch.setattr(Writer, "write", stuck)
    completer = make_completer()
    first, second = fetch(queue, slots=2, room=2)
    completer.add(Outcome(job=first))
    assert asked.wait(WITHIN)
    completer.add(Outcome(job=second))
    completer.stop()
    completer.hurry()

    completer.report_unwritten()
    answered.set()
    said = [record.getMessage() for record in caplog.records if "stays locked" in record.msg]
    assert [text.split(" ")[1] for text in said] == [str(held), str(free)]


def test_when_hurried_everything_is_still_tried_once(
    queue: Queue, make_completer: MakeCompleter
) -> None:
    completer = make_completer()
    for _ in range(1_200):
        queue.add()
    jobs = fetch(queue, slots=1_200, room=1_200)
    for job in jobs:
        completer.add(Outcome(job=job))
    completer.hurry()
    completer.stop()

    assert completer.join(WITHIN)
    assert queue.jobs() == []


def test_an_error_that_the_databases_encoding_cannot_hold_is_escaped(
    queue: Queue, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test database is in UTF-8: let the server refuse the text as a Latin-1 one would."""
    queue.query(
        "alter table {jobs} add constraint as_in_latin_1 check (last_error !~ '[^\\x01-\\xff]')"
    )
    job_id = queue.add()
    (job,) = fetch(queue)
    link = Link("default", "completer")
    run = link.run

    def refuse(statement: Any) -> Any:
        try:
            return run(statement)
        except psycopg.errors.CheckViolation as error:
            raise psycopg.errors.UntranslatableCharacter(str(error)) from error

    monkeypatch.setattr(link, "run", refuse)
    ending = Ending(Outcome(job, "smile \N{GRINNING FACE}"), How.FAILED)
    try:
        Writer(link, queue.schema).write(ME, [ending])
    finally:
        link.close()
        queue.query("alter table {jobs} drop constraint as_in_latin_1")

    assert not ending.job_held
    row = queue.job(job_id)
    assert row is not None
    assert row["last_error"] == "smile \\U0001f600"
