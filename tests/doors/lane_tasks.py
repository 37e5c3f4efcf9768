"""A task that writes down when it ran; loaded by the worker program where a test asks for it."""

from __future__ import annotations

import time

from django.db import connection

from django_graphile_worker import task


@task
def run_in_lane(n: int, lane: str) -> None:
    """Take a few milliseconds, with a row that tells when they began and ended."""
    with connection.cursor() as cursor:
        cursor.execute(
            "insert into lane_log (n, lane, began) values (%s, %s, clock_timestamp()) returning id",
            [n, lane],
        )
        (row,) = cursor.fetchone()
        time.sleep(0.005)
        cursor.execute("update lane_log set ended = clock_timestamp() where id = %s", [row])
