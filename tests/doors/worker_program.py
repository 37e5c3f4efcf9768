"""A program that is `manage.py` with tasks whose end a test decides on; run with `-m`."""

from __future__ import annotations

import asyncio
import ctypes
import importlib
import os
import signal
import sys

from asgiref.sync import sync_to_async


def main() -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "testproject.settings"
    import django

    django.setup()
    from django.conf import settings
    from django.core.management import execute_from_command_line
    from django.db import connection

    from django_graphile_worker import enqueue, task

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

    @task
    def tell_process() -> None:
        """Leave a job that nobody serves, with the id of this process."""
        enqueue("told", {"pid": os.getpid()})

    @task
    def die() -> None:
        """End this process as the kernel does where memory is short."""
        os.kill(os.getpid(), signal.SIGKILL)

    @task
    def hold_interpreter(number: int, seconds: int) -> None:
        """Hold the advisory lock `number`, and let no other thread of this process run."""
        lock(number)
        ctypes.PyDLL(None).sleep(seconds)

    if module := os.environ.get("MODULE_OF_TASKS"):
        importlib.import_module(module)
    if os.environ.get("LOG_RELOADER"):
        # It says which files it has seen. Django sets logging up once more, so by a setting.
        settings.LOGGING = {
            "version": 1,
            "disable_existing_loggers": False,
            "handlers": {"console": {"class": "logging.StreamHandler"}},
            "loggers": {
                "django.utils.autoreload": {
                    "handlers": ["console"],
                    "level": "DEBUG",
                    "propagate": False,
                }
            },
        }
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
