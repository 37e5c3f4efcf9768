"""Rows in any state, straight into the tables."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connection
from psycopg import sql

AddJob = Callable[..., int]


@pytest.fixture
def add_job(db: None, schema: str) -> AddJob:
    """Put a job straight into the table; values are SQL expressions. Returns its id."""

    def add(*, task: str = "print", queue: str | None = None, **values: str) -> int:
        with connection.cursor() as cursor:
            for table, column, name in (
                ("_private_tasks", "identifier", task),
                ("_private_job_queues", "queue_name", queue),
            ):
                if name is not None:
                    cursor.execute(
                        sql.SQL("insert into {} ({}) values (%s) on conflict do nothing").format(
                            sql.Identifier(schema, table), sql.Identifier(column)
                        ),
                        [name],
                    )
            cursor.execute(
                sql.SQL(
                    "insert into {} (task_id, job_queue_id{}) select"
                    " (select id from {} where identifier = %s),"
                    " (select id from {} where queue_name = %s){} returning id"
                ).format(
                    sql.Identifier(schema, "_private_jobs"),
                    sql.SQL("").join(sql.SQL(", ") + sql.Identifier(name) for name in values),
                    sql.Identifier(schema, "_private_tasks"),
                    sql.Identifier(schema, "_private_job_queues"),
                    sql.SQL("").join(sql.SQL(f", {value}") for value in values.values()),
                ),
                [task, queue],
            )
            (job_id,) = cursor.fetchone()
        return int(job_id)

    return add
