"""`manage.py graphile_worker`: arguments in, a worker pool out, or a supervisor of several."""

from __future__ import annotations

import logging
import os
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import psycopg
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from django_graphile_worker.conf import Config
from django_graphile_worker.exceptions import GraphileWorkerError
from django_graphile_worker.management import arguments, greeting
from django_graphile_worker.registry import registry
from django_graphile_worker.worker.connections import Link
from django_graphile_worker.worker.parent import SUPPORTED, Parent
from django_graphile_worker.worker.pool import WorkerPool
from django_graphile_worker.worker.shutdown import Stops, on_signal

LEVELS = {0: logging.ERROR, 1: logging.INFO, 2: logging.DEBUG, 3: logging.DEBUG}

logger = logging.getLogger("graphile_worker")


class Command(BaseCommand):
    help = (
        "Run jobs until stopped. The first SIGTERM or SIGINT lets running jobs end, "
        "the second ends them."
    )
    requires_migrations_checks = False

    # Whether this is a program of its own, which may start others like itself.
    _is_program = False
    _stuck = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        arguments.add(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        parent = Parent.find() if self._is_program else None
        config = arguments.config(options)
        reload = self._reload(options, config)
        supervised = parent is None and self._is_program and (config.processes > 1 or reload)
        with self._logging(options["verbosity"], config.log_format):
            pool = self._make_pool(config, options, parent)
            if supervised:
                exit_code = self._supervise(pool, config, options, reload=reload)
            else:
                exit_code = self._work(pool, config, options, parent, reload=reload)
        if exit_code:
            self._stuck = pool.stuck and not supervised
            sys.exit(exit_code)

    def run_from_argv(self, argv: list[str]) -> None:
        self._is_program = True
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

    def _make_pool(
        self, config: Config, options: dict[str, Any], parent: Parent | None
    ) -> WorkerPool:
        def on_name(worker_id: str) -> None:
            logger.info("Worker %s is ready.", worker_id, extra={"worker_id": worker_id})
            if parent is not None:
                parent.tell_name(worker_id)

        return WorkerPool(
            database=config.databases[0],
            schema=config.schema,
            registry=registry,
            concurrency=config.concurrency,
            poll_interval=config.poll_interval,
            shutdown_timeout=config.shutdown_timeout,
            once=options["once"],
            identifiers=(
                arguments.identifiers(options, registry.identifiers())
                if arguments.chooses(options)
                else None
            ),
            forbidden_flags=arguments.resolve_flags(config.forbidden_flags),
            max_jobs=options["max_jobs"],
            prefetch=config.prefetch,
            listen_database=config.listen_alias,
            heartbeat=config.heartbeat,
            stale_after=config.stale_after,
            keep_statistics=config.keep_statistics,
            wrapper=arguments.resolve_wrapper(config.job_wrapper),
            on_name=on_name,
        )

    def _work(
        self,
        pool: WorkerPool,
        config: Config,
        options: dict[str, Any],
        parent: Parent | None,
        *,
        reload: bool,
    ) -> int:
        """Be a worker until the end; return the exit code."""
        stops = Stops(pool.stop)
        # Before anything that takes time: a signal right after the start is a stop, too.
        with on_signal(stops.signalled):
            if parent is None:
                self._check_and_greet(pool, config, options, processes=1)
            else:
                parent.watch(stops.ask)
                if reload:
                    from django_graphile_worker.worker import reloading

                    reloading.watch(stops.ask_to_restart)
            exit_code = pool.run()
        counts = pool.counts
        self._say(
            config,
            options,
            "Worker stopped: %(completed)d jobs completed, %(failed)d failed, "
            "%(returned)d given back.",
            counts,
        )
        if stops.restart:
            from django_graphile_worker.worker.reloading import CHANGED

            return CHANGED
        return exit_code

    def _supervise(
        self, pool: WorkerPool, config: Config, options: dict[str, Any], *, reload: bool
    ) -> int:
        """Run worker processes until the end; return the exit code. `pool` is not run."""
        # Only here: a worker that runs alone does without what it takes to start others.
        from django_graphile_worker.worker.keeper import Keeper
        from django_graphile_worker.worker.supervisor import KILL, Supervisor

        supervisor = Supervisor(
            processes=config.processes,
            keeper=Keeper(
                link=Link(config.databases[0], "keeper"),
                schema=config.schema,
                heartbeat=config.heartbeat,
                # If it dies, which it has logged, the children still beat for themselves.
                on_end=lambda part, error: None,
            ),
            shutdown_timeout=config.shutdown_timeout,
            once=options["once"],
            reload=reload,
        )
        with on_signal(Stops(supervisor.stop, KILL).signalled):
            self._check_and_greet(pool, config, options, processes=config.processes)
            return supervisor.run()

    def _reload(self, options: dict[str, Any], config: Config) -> bool:
        """Whether to watch the project's files. Raises `CommandError` where that cannot be."""
        wanted: bool | None = options["reload"]
        bounded = options["once"] or options["max_jobs"] is not None
        if not self._is_program:
            if wanted or (options["processes"] or 1) > 1:
                raise CommandError(
                    "--reload and --processes start programs like this one: use the command line."
                )
            return False
        if wanted and bounded:
            raise CommandError("--reload does not go together with --once and --max-jobs.")
        if not SUPPORTED and (wanted or config.processes > 1):
            raise CommandError(
                "--reload and --processes need a POSIX system; start several workers instead."
            )
        if wanted is None:
            return settings.DEBUG and not bounded and SUPPORTED
        return wanted

    @contextmanager
    def _logging(self, verbosity: int, log_format: str) -> Iterator[None]:
        """Set the logger's level, and give it a handler where the project has none for it.

        With the format `json` it gets one of its own in any case, and the project's get nothing.
        """
        level, propagate = logger.level, logger.propagate
        handler = None
        from django_graphile_worker.worker.logs import JsonFormatter, TextFormatter

        if log_format == "json":
            handler = logging.StreamHandler(self.stderr)
            handler.setFormatter(JsonFormatter())
            logger.propagate = False
        elif not logger.hasHandlers():
            handler = logging.StreamHandler(self.stderr)
            handler.setFormatter(TextFormatter("%(asctime)s %(levelname)s %(message)s"))
        logger.setLevel(LEVELS[verbosity])
        if handler is not None:
            logger.addHandler(handler)
        try:
            yield
        finally:
            logger.setLevel(level)
            logger.propagate = propagate
            if handler is not None:
                logger.removeHandler(handler)

    def _check_and_greet(
        self, pool: WorkerPool, config: Config, options: dict[str, Any], *, processes: int
    ) -> None:
        """Look at the database, and say what is served. Raises `CommandError`."""
        database = config.databases[0]
        try:
            revision, functions = pool.check()
        except GraphileWorkerError as error:
            raise CommandError(str(error)) from error
        except psycopg.Error as error:
            raise CommandError(f"The database {database!r} said: {error}") from error
        self._say(
            config,
            options,
            *greeting.compose(
                config,
                revision=revision,
                functions=functions,
                tasks=arguments.identifiers(options, registry.identifiers()),
                processes=processes,
                listens=not options["once"],
            ),
        )

    def _say(
        self, config: Config, options: dict[str, Any], text: str, facts: Mapping[str, Any]
    ) -> None:
        """Print a text with its facts; where lines are to be read by a program, log them."""
        if config.log_format == "json":
            logger.info(text.splitlines()[0], facts, extra=dict(facts))
        elif options["verbosity"] > 0:
            try:
                self.stdout.write(text % facts)
                # The worker may run for months before the buffer of a pipe is full.
                self.stdout.flush()
            except BrokenPipeError:
                # Whoever read along is gone, the work is not. What is left in the buffer must go
                # somewhere, or the interpreter fails over it in the end.
                if self._is_program:
                    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
