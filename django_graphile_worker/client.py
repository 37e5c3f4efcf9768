"""What an application may ask of the queue.

All of it runs on Django's own connection: inside `atomic()` a job appears exactly if the
transaction commits. Everything that can be checked is checked before any SQL is sent, so a refused
call leaves the transaction usable; an error of the database is let through as Django raises it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Unpack

from django_graphile_worker import requests, transactions, validation
from django_graphile_worker.conf import get_config
from django_graphile_worker.exceptions import InvalidJob, JobNotStored, QueueInUse
from django_graphile_worker.jobs import EnqueuedJob, JobKeyMode, JobOptions, JobSpec, StoredJob
from django_graphile_worker.registry import Task
from django_graphile_worker.requests import JobRequest, TaskLike
from django_graphile_worker.statements import jobs as statements
from django_graphile_worker.statements import queues

# One statement's share of a bulk call: bounded in specs and in characters, since one value of
# PostgreSQL ends at 1 GB.
CHUNK = 10_000
CHUNK_CHARACTERS = 32 * 2**20


def enqueue(task: TaskLike, payload: object = None, **options: Unpack[JobOptions]) -> EnqueuedJob:
    """Add a job, or change the stored job that holds its key.

    One round trip; more with the key mode `unsafe_dedupe`, which reads the job that it finds.

    `task` is a task (see `@task`) or an identifier: a name is enough for a task that only a Node or
    Rust worker serves; one that is known here stands for the task, its options included. `payload`
    is JSON: an object becomes keyword arguments, anything else one positional argument; left out,
    or `None`, it is an empty object. `options` are those of `JobOptions`: `queue_name`, `run_at`,
    `max_attempts`, `job_key`, `job_key_mode`, `priority`, `flags`, `using`; those given win over
    the task's.

    Raises `InvalidJob` (with `InvalidJobType` for a wrong type) naming the argument, before any
    SQL; `UnsupportedDatabase`; `JobNotStored` where another installer has replaced the database's
    functions. Outside of a transaction a deadlock or serialization failure is tried again.
    """
    request = requests.make(task, payload, options)
    mode = request.job_key_mode or JobKeyMode.REPLACE
    schema = get_config().schema
    statement = statements.add_job(request.spec, mode, schema)
    if mode is not JobKeyMode.UNSAFE_DEDUPE:
        return transactions.run(request.using, statement.run)

    def add_and_look(cursor: Any) -> EnqueuedJob:
        job = statement.run(cursor)
        # The job found may be another task's. We have it locked, so it is still there to be read.
        return statements.enqueued_job(job.id, schema).run(cursor) if job.revision else job

    return transactions.run(request.using, add_and_look, atomic=True)


def enqueue_many(
    jobs: Iterable[TaskLike | tuple[TaskLike, object] | JobRequest],
    *,
    job_key_preserve_run_at: bool = False,
    using: str | None = None,
) -> list[EnqueuedJob]:
    """Add many jobs, all or none, and return them in the order given.

    Each is a pair `(task, payload)`, a dict with the keys `task`, `payload` and any option of
    `JobOptions`, or a task alone. The task may carry options of its own::

        enqueue_many([
            (send_letter, {"to": "a@b"}),
            (send_letter.using(job_key="letter-7"), {"to": "c@d"}),
            {"task": "resize_image", "payload": {"id": 3}, "priority": -5},
        ])

    `job_key_preserve_run_at` gives all of them the key mode `preserve_run_at` instead of `replace`;
    a job that asks for another mode, or another database, is refused. The same key several times is
    as if added one after the other; each such job is returned as it stands at the end.

    Jobs are sent sorted by key (in byte order, those without key last), in one transaction: the
    caller's, or else one of its own that is tried again after a deadlock or a serialization
    failure. Raises as `enqueue` does; a refusal begins with `jobs[<index>]`.
    """
    if not isinstance(job_key_preserve_run_at, bool):
        raise InvalidJob("job_key_preserve_run_at must be True or False")
    mode = JobKeyMode.PRESERVE_RUN_AT if job_key_preserve_run_at else JobKeyMode.REPLACE
    alias = transactions.alias(None if using is None else validation.using(using))
    specs = requests.make_many(jobs, mode, alias)
    if not specs:
        return []
    # One order for all callers, so that two bulk calls over the same keys do not wait in a circle
    # (several chunks may, where a later one is the first to use a name; that is tried again).
    # Python compares by code point, which is the byte order of UTF-8.
    order = sorted(
        range(len(specs)), key=lambda i: (specs[i].job_key is None, specs[i].job_key or "")
    )
    chunks = list(_chunks([specs[index] for index in order]))
    schema = get_config().schema

    def add(cursor: Any) -> list[EnqueuedJob]:
        added: list[EnqueuedJob] = []
        for chunk in chunks:
            added += statements.add_jobs(chunk, job_key_preserve_run_at, schema).run(cursor)
        return added

    added = transactions.run(alias, add, atomic=len(chunks) > 1)
    # Where a key stands several times, the last of its jobs tells how the row now is.
    final = {job.id: job for job in added}
    result: dict[int, EnqueuedJob] = {
        index: final[job.id] for index, job in zip(order, added, strict=True)
    }
    return [result[index] for index in range(len(specs))]


def remove_job(job_key: str, *, using: str | None = None) -> StoredJob | None:
    """Remove the job that holds a key and return it; `None` where there is none.

    A job that a worker is running cannot be deleted: it loses its key and gets no retry, and is
    returned with `locked_by` set. Raises `InvalidJob`, `UnsupportedDatabase`.
    """
    statement = statements.remove_job(validation.job_key(job_key), get_config().schema)
    return transactions.run(using, statement.run)


def complete_jobs(job_ids: Iterable[int], *, using: str | None = None) -> list[StoredJob]:
    """Delete jobs as if they had run; return those deleted, by id.

    Jobs that a worker holds (for less than four hours) are left alone and not returned, here and in
    the two verbs below. Raises `InvalidJob`, `UnsupportedDatabase`.
    """
    ids = validation.job_ids(job_ids)
    return transactions.run(using, statements.complete_jobs(ids, get_config().schema).run)


def permanently_fail_jobs(
    job_ids: Iterable[int], error_message: str | None = None, *, using: str | None = None
) -> list[StoredJob]:
    """Let jobs fail for good, with a message for their `last_error`; return those changed, by id.

    They stay stored until somebody removes or reschedules them. Raises `InvalidJob`,
    `UnsupportedDatabase`.
    """
    ids = validation.job_ids(job_ids)
    if error_message is not None:
        error_message = validation.text("error_message", error_message, empty=True)
    statement = statements.permanently_fail_jobs(ids, error_message, get_config().schema)
    return transactions.run(using, statement.run)


def reschedule_jobs(
    job_ids: Iterable[int],
    *,
    run_at: datetime | timedelta | None = None,
    priority: int | None = None,
    attempts: int | None = None,
    max_attempts: int | None = None,
    using: str | None = None,
) -> list[StoredJob]:
    """Change when, how urgently and how often jobs may run; return those changed, by id.

    `None` leaves a value as it is. `run_at` is an aware datetime or a timedelta from the database's
    now; `attempts` is the number of attempts counted so far, so 0 lets a job that has failed for
    good run again. Raises `InvalidJob`, `UnsupportedDatabase`.
    """
    if all(value is None for value in (run_at, priority, attempts, max_attempts)):
        raise InvalidJob("nothing to change: give run_at, priority, attempts or max_attempts")
    statement = statements.reschedule_jobs(
        validation.job_ids(job_ids),
        get_config().schema,
        run_at=None if run_at is None else validation.run_at(run_at),
        priority=None if priority is None else validation.priority(priority),
        attempts=None if attempts is None else validation.attempts(attempts),
        max_attempts=None if max_attempts is None else validation.max_attempts(max_attempts),
    )
    return transactions.run(using, statement.run)


def force_unlock_workers(worker_ids: Iterable[str], *, using: str | None = None) -> None:
    """Free every job and every named queue that the given workers hold.

    For workers that are dead: a job of one that lives would run twice. The ids are those of
    `locked_by`. Raises `InvalidJob`, `UnsupportedDatabase`.
    """
    ids = validation.worker_ids(worker_ids)
    transactions.run(using, statements.force_unlock_workers(ids, get_config().schema).run)


def pause_queue(queue_name: str, *, using: str | None = None) -> bool:
    """Let no worker, of whatever language, take a job of a named queue; made if there is none.

    Returns whether it was not paused before. A job that is running goes on, and jobs may be added
    as ever. It stays so until `resume_queue`. Raises `InvalidJob`, `UnsupportedDatabase`;
    `JobNotStored` where a trigger keeps the queue from being made.
    """
    name = validation.queue_name(queue_name)
    schema = get_config().schema
    pause = queues.pause_queue(schema=schema, queue_name=name)

    def work(cursor: Any) -> bool:
        # A cleanup may take it away before we have it.
        for _ in range(transactions.TRIES):
            if (paused := pause.run(cursor)) is not None:
                return paused
            queues.ensure_queue(schema=schema, queue_name=name).run(cursor)
        raise JobNotStored(f"the database took the named queue {name!r} and stored nothing")

    return transactions.run(using, work, atomic=True)


def resume_queue(queue_name: str, *, using: str | None = None) -> bool:
    """Let workers take the jobs of a paused queue again, and tell them at once.

    Returns whether it was paused. Raises `QueueInUse` while a job runs that was taken before the
    pause, since a second one would run beside it; `InvalidJob`, `UnsupportedDatabase`.
    """
    name = validation.queue_name(queue_name)
    schema = get_config().schema

    def work(cursor: Any) -> bool:
        found = queues.lock_queue(schema=schema, queue_name=name).run(cursor)
        if found is None or not found[1]:
            return False
        running = queues.resume_queue(schema=schema, queue_id=found[0]).run(cursor)
        if running is not None:
            raise QueueInUse(name, *running)
        return True

    return transactions.run(using, work, atomic=True)


def _chunks(specs: Sequence[JobSpec]) -> Iterator[Sequence[JobSpec]]:
    start = characters = 0
    for index, spec in enumerate(specs):
        characters += len(spec.payload or "")
        if index - start == CHUNK or (index > start and characters > CHUNK_CHARACTERS):
            yield specs[start:index]
            start, characters = index, len(spec.payload or "")
    yield specs[start:]


Task.send = staticmethod(enqueue)
