"""What tests do with the page of one job."""

from __future__ import annotations

from html import unescape

from django.db import connection
from django.test import Client
from django.urls import reverse
from psycopg import sql


def page_of(client: Client, pk: int) -> str:
    response = client.get(reverse("admin:graphile_worker_job_change", args=[pk]))
    assert response.status_code == 200
    return unescape(response.content.decode())


def hold_queue(schema: str, queue: str, worker: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            sql.SQL("update {} set locked_at = now(), locked_by = %s where queue_name = %s").format(
                sql.Identifier(schema, "_private_job_queues")
            ),
            [worker, queue],
        )
