"""Our side of a mixed fleet: each task does what its namesake in peer.mjs does."""

from __future__ import annotations

import json
import time
from typing import Any

from django.db import connection

from django_graphile_worker import TaskContext, task
from tests.storm.actors import TASKS


def note_run(context: TaskContext, payload: object) -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "insert into runs (peer, worker, job, task, attempt, payload)"
            " values ('django', %s, %s, %s, %s, %s) returning id",
            [
                context.job.worker_id,
                context.job.id,
                context.job.task_identifier,
                context.attempt,
                json.dumps(payload),
            ],
        )
        (run,) = cursor.fetchone()
    return int(run)


def note_end(run: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("update runs set ended = clock_timestamp() where id = %s", [run])


@task
def note(context: TaskContext, hold: int = 0, pause: int = 0, fail: bool = False, **_: Any) -> None:
    run = note_run(context, context.payload)
    if hold:
        with connection.cursor() as cursor:
            cursor.execute("select pg_advisory_lock(%s), pg_advisory_unlock(%s)", [hold, hold])
    if pause:
        time.sleep(pause / 1000)
    note_end(run)
    if fail:
        raise RuntimeError("asked to")


@task
def batch(context: TaskContext, items: list[Any]) -> list[Any]:
    note_end(note_run(context, items))
    return [item for item in items if "django" in item["fails_in"]]


def note_numbers(numbers: list[int]) -> None:
    with connection.cursor() as cursor:
        cursor.execute("insert into carried select 'django', unnest(%s::bigint[])", [numbers])


for identifier in TASKS:
    task(identifier)(note_numbers)
