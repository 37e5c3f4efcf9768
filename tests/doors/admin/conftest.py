"""People of the staff, and rows that only a worker would write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from psycopg import sql

from django_graphile_worker import client as queue
from tests.doors.admin.job_acts import LATER, LOCKED, LONG_LOCKED, Mixed
from tests.doors.conftest import AddJob

LogIn = Callable[..., Client]
AddRow = Callable[..., None]


@pytest.fixture
def log_in(client: Client) -> LogIn:
    """Log in somebody of the staff who has the permissions named, and no others."""

    def log_in(*codenames: str) -> Client:
        user = User.objects.create_user("staff", is_staff=True)
        permissions = Permission.objects.filter(
            content_type__app_label="graphile_worker", codename__in=codenames
        )
        assert {permission.codename for permission in permissions} == set(codenames)
        user.user_permissions.set(permissions)
        client.force_login(user)
        return client

    return log_in


@pytest.fixture
def add_row(db: None, schema: str) -> AddRow:
    """Put a row into a table of the queue; values that are pieces of SQL stand as they are."""

    def add(table: str, **values: Any) -> None:
        shown = [v if isinstance(v, sql.Composable) else sql.Literal(v) for v in values.values()]
        with connection.cursor() as cursor:
            cursor.execute(
                sql.SQL("insert into {} ({}) overriding system value values ({})").format(
                    sql.Identifier(schema, table),
                    sql.SQL(", ").join(map(sql.Identifier, values)),
                    sql.SQL(", ").join(shown),
                )
            )

    return add


@pytest.fixture
def add_worker(add_row: AddRow) -> Callable[..., None]:
    def add(worker_id: str, **values: Any) -> None:
        row: dict[str, Any] = {
            "worker_id": worker_id,
            "host": "here",
            "pid": 7,
            "concurrency": 4,
            "heartbeat": "5 s",
            "stale_after": "30 s",
        }
        add_row("django_workers", **row | values)

    return add


@pytest.fixture
def add_error(add_row: AddRow) -> Callable[..., None]:
    def add(**values: Any) -> None:
        row: dict[str, Any] = {
            "job_id": 1,
            "task_identifier": "print",
            "attempt": 1,
            "max_attempts": 25,
            "error": "no",
        }
        add_row("django_job_errors", **row | values)

    return add


@pytest.fixture
def actor(log_in: LogIn) -> Client:
    return log_in("view_job", "act_on_job")


@pytest.fixture
def mixed(add_job: AddJob) -> Mixed:
    gone = add_job()
    queue.complete_jobs([gone])
    return Mixed(
        failed=add_job(attempts="25", key="'failed'", last_error="'it broke'"),
        running=add_job(**LOCKED, key="'running'"),
        stale=add_job(**LONG_LOCKED, key="'stale'"),
        scheduled=add_job(run_at=LATER, key="'scheduled'"),
        ready=add_job(run_at="now() - interval '1 hour'"),
        # Its key is another's by now.
        taken_over=add_job(attempts="25"),
        gone=gone,
    )
