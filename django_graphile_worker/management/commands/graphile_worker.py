"""`manage.py graphile_worker`: arguments in, a worker pool out."""

from __future__ import annotations

import dataclasses
import logging
import os
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.core.management.base import BaseCommand, CommandError
from django.db import connections

from django_graphile_worker.conf import Config, get_config
from django_graphile_worker.exceptions import GraphileWorkerError, InvalidSetting
from django_graphile_worker.registry import registry
from django_graphile_worker.worker.pool import WorkerPool
from django_graphile_worker.worker.shutdown import on_signal

LEVELS = {0: logging.ERROR, 1: logging.INFO, 2: logging.DEBUG, 3: logging.DEBUG}

logger = logging.getLogger("graphile_worker")


class Command(BaseCommand):
    help = (
        "Run jobs until stopped. The first SIGTERM or SIGINT lets running jobs end, "
        "the second ends them."
    )
    requires_migrations_checks = False

    _stuck = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--concurrency",
            type=int,
            metavar="N",
            help="how many jobs to run at a time (setting CONCURRENCY, default 10)",
        )
        parser.add_argument(
            "--once",
            action="store_true",
            help="run the jobs that are due, and those that become due meanwhile, and exit",
        )
        parser.add_argument(
            "--poll-interval",
            type=float,
            metavar="SECONDS",
            help="pause between two looks for due jobs; new ones are also announced "
            "(setting POLL_INTERVAL, default 2)",
        )
        parser.add_argument(
            "--database",
            metavar="ALIAS",
            help="the database with the queue (the first of the setting DATABASES)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        config = self._config(options)
        database = config.databases[0]
        with self._logging(options["verbosity"]):
            pool = WorkerPool(
                database=database,
                schema=config.schema,
                registry=registry,
                concurrency=config.concurrency,
                poll_interval=config.poll_interval,
                shutdown_timeout=config.shutdown_timeout,
                once=options["once"],
            )
            # Before anything that takes time: a signal right after the start is a stop, too.
            with on_signal(pool.stop):
                try:
                    revision, functions = pool.check()
                except GraphileWorkerError as error:
                    raise CommandError(str(error)) from error
                except psycopg.Error as error:
                    raise CommandError(f"The database {database!r} said: {error}") from error
                if options["verbosity"] > 0:
                    self._greet(pool, config, revision, functions)
                exit_code = pool.run()
        if exit_code:
            self._stuck = pool.stuck
            sys.exit(exit_code)

    def run_from_argv(self, argv: list[str]) -> None:
        try:
            super().run_from_argv(argv)
        except SystemExit as end:
            if self._stuck:
                # A task that does not end may hold threads that the interpreter waits for.
                logging.shutdown()
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(end.code if isinstance(end.code, int) else 1)
            raise

    def _config(self, options: dict[str, Any]) -> Config:
        """Return the settings with the flags put over them. Raises `CommandError`."""
        try:
            config = get_config()
        except InvalidSetting as error:
            raise CommandError(str(error)) from error
        for name in ("concurrency", "poll_interval"):
            if options[name] is not None:
                try:
                    config = dataclasses.replace(config, **{name: options[name]})
                except InvalidSetting as error:
                    flag = "--" + name.replace("_", "-")
                    reason = str(error).partition(" must be ")[2]
                    raise CommandError(f"{flag} must be {reason}") from error
        if (alias := options["database"]) is not None:
            if alias not in connections:
                raise CommandError(
                    f"--database must be one of {', '.join(connections)}, not {alias!r}."
                )
            config = dataclasses.replace(config, databases=(alias,))
        return config

    @contextmanager
    def _logging(self, verbosity: int) -> Iterator[None]:
        """Set the logger's level, and give it a handler where the project has none for it."""
        level = logger.level
        handler = None if logger.hasHandlers() else logging.StreamHandler(self.stderr)
        logger.setLevel(LEVELS[verbosity])
        if handler is not None:
            handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
            logger.addHandler(handler)
        try:
            yield
        finally:
            logger.setLevel(level)
            if handler is not None:
                logger.removeHandler(handler)

    def _greet(
        self, pool: WorkerPool, config: Config, revision: int | None, functions: int | None
    ) -> None:
        tasks = registry.identifiers()
        self.stdout.write(
            f"Worker {pool.worker_id}\n"
            f"  database  {config.databases[0]}, schema {config.schema} "
            f"(revision {revision}, functions {functions})\n"
            f"  slots     {config.concurrency}, looks for jobs every {config.poll_interval:g} s"
        )
        if tasks:
            self.stdout.write(f"  tasks     {', '.join(tasks)}")
        else:
            self.stdout.write(
                self.style.WARNING("  tasks     none: no installed app has tasks in a tasks.py")
            )
        # The worker may run for months before the buffer of a pipe is full.
        self.stdout.flush()
