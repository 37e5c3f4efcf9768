"""A program that is `manage.py` with tasks whose end a test decides on; run with `-m`."""

from __future__ import annotations

import asyncio
import os
import sys

from asgiref.sync import sync_to_async


def main() -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "testproject.settings"
    import django

    django.setup()
    from django.core.management import execute_from_command_line
    from django.db import connection

    from django_graphile_worker import task

    @task
    def wait_for_lock(number: int) -> None:
        """Run until the test gives the advisory lock `number` free."""
        with connection.cursor() as cursor:
            cursor.execute("select pg_advisory_lock(%s), pg_advisory_unlock(%s)", [number, number])

    @task
    async def wait_for_ever(number: int) -> None:
        """Hold the advisory lock `number` and never end."""
        await sync_to_async(lock)(number)
        await asyncio.Event().wait()

    def lock(number: int) -> None:
        with connection.cursor() as cursor:
            cursor.execute("select pg_advisory_lock(%s)", [number])

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
