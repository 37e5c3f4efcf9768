"""The task whose process is killed: it notes when each of its runs begins and ends."""

from __future__ import annotations

import os
import time

from django.db import connection

from django_graphile_worker import task
from django_graphile_worker.context import TaskContext

TABLE = "kills_run"


@task
def work(context: TaskContext, seconds: float) -> None:
    """Take that long. Each note is committed at once."""
    run = [context.job.id, context.attempt]
    with connection.cursor() as cursor:
        cursor.execute(
            f"insert into {TABLE} (job_id, attempt, pid) values (%s, %s, %s)", [*run, os.getpid()]
        )
        time.sleep(seconds)
        cursor.execute(
            f"update {TABLE} set ended_at = clock_timestamp() where job_id = %s and attempt = %s",
            run,
        )
