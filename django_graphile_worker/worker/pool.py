"""Puts the parts of a worker together, watches over them, and stops them in order."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import psycopg

from django_graphile_worker import signals
from django_graphile_worker.conf import SAME, Same
from django_graphile_worker.exceptions import SchemaConflict
from django_graphile_worker.jobs import LockedJob
from django_graphile_worker.registry import Registry
from django_graphile_worker.statements import worker as statements
from django_graphile_worker.worker.closing import Closing
from django_graphile_worker.worker.completer import MOST_UNWRITTEN, Completer
from django_graphile_worker.worker.connections import Link
from django_graphile_worker.worker.executor import LONGEST_WAIT, Executor
from django_graphile_worker.worker.fetcher import Fetcher, Load
from django_graphile_worker.worker.identity import Identity
from django_graphile_worker.worker.listener import Listener
from django_graphile_worker.worker.rescuer import Rescuer
from django_graphile_worker.worker.service import Service
from django_graphile_worker.worker.strangers import Strangers, look_at_functions
from django_graphile_worker.worker.tally import KEPT, Tally
from django_graphile_worker.worker.watch import Watch

logger = logging.getLogger("graphile_worker")

# Jobs taken ahead of free slots, at most; the fetcher takes fewer where jobs are slow.
PREFETCH = 1_000

# How long the last batch waits for rows that callers' transactions hold, in seconds.
LAST_WAIT = 5.0


class WorkerPool:
    """One worker: `run()` works until it is drained (`once`), stopped, or a part of it has died.

    `database` is the Django alias of the database, `schema` the queue's schema, unquoted. The other
    arguments are the settings and flags of the command, which docs/worker.md tells; `identifiers`
    are the tasks to serve (`None`: all of `registry`), `wrapper(context)` gives a context manager
    around each job, and `on_name(worker_id)` is told each name under which the pool locks jobs.
    """

    def __init__(
        self,
        *,
        database: str,
        schema: str,
        registry: Registry,
        concurrency: int,
        poll_interval: float,
        shutdown_timeout: float,
        once: bool = False,
        identifiers: Sequence[str] | None = None,
        forbidden_flags: Sequence[str] | Callable[[], Sequence[str]] = (),
        max_jobs: int | None = None,
        prefetch: int | None = None,
        listen_database: str | Same | None = SAME,
        heartbeat: float = 5.0,
        stale_after: float = 30.0,
        wrapper: Callable[[Any], AbstractContextManager[Any]] | None = None,
        on_name: Callable[[str], None] | None = None,
        last_wait: float = LAST_WAIT,
        keep_statistics: float = KEPT,
    ) -> None:
        self._database = database
        self._schema = schema
        self._once = once
        self._max_jobs = max_jobs
        self._on_name = on_name
        self._name: str | None = None
        self._watch = Watch()
        self._identity = Identity()
        on_end = self._watch.on_end
        flags = forbidden_flags if callable(forbidden_flags) else lambda: forbidden_flags
        served = registry.identifiers() if identifiers is None else identifiers

        self.tally = Tally(schema, keep_statistics)
        self.rescuer = Rescuer(
            link=Link(database, "rescuer"),
            schema=schema,
            identity=self._identity,
            concurrency=concurrency,
            heartbeat=heartbeat,
            stale_after=stale_after,
            on_registered=self._on_registered,
            on_lost=self._on_lost,
            on_freed=lambda: self.fetcher.wake(),
            on_end=on_end,
            tally=self.tally,
        )
        self.completer = Completer(
            link=Link(database, "completer"),
            schema=schema,
            identity=self._identity,
            last_wait=last_wait,
            on_written=self._on_written,
            on_end=on_end,
            on_run=self.tally.add,
        )
        self.executor = Executor(
            concurrency=concurrency,
            find_task=registry.get,
            on_outcome=self.completer.add,
            on_room=lambda: self.fetcher.wake(),
            on_end=on_end,
            wrapper=wrapper,
            database=database,
        )
        self.fetcher = Fetcher(
            link=Link(database, "fetcher"),
            schema=schema,
            identity=self._identity,
            identifiers=served,
            forbidden_flags=flags,
            concurrency=concurrency,
            prefetch=PREFETCH if prefetch is None else prefetch,
            poll_interval=poll_interval,
            once=once,
            load=lambda: Load(self.executor.held, self.executor.finished),
            feed=self._feed,
            tidy=self._tidy,
            may_fetch=self._may_fetch,
            settled=lambda: self.completer.settled,
            known_ids=self._known_ids,
            idle=Strangers(schema, served, told=identifiers is not None).look,
            on_deaf=lambda: self.listener.lost(),
            on_dead=lambda: self.rescuer.report_dead(),
            on_drained=self._watch.tell_done,
            on_end=on_end,
        )
        self.listener = Listener(
            link=Link(
                database if listen_database is SAME else (listen_database or database), "listener"
            ),
            on_listening=self.fetcher.listen_with,
            on_end=on_end,
        )
        # Who takes jobs in, in the order of stopping: the ear is the fetcher's until that ends.
        takers: list[Service] = [self.fetcher]
        if not once and listen_database is not None:
            takers.append(self.listener)
        self.parts: list[Service] = [self.rescuer, self.completer, self.executor, *takers]
        self._closing = Closing(
            watch=self._watch,
            takers=takers,
            executor=self.executor,
            completer=self.completer,
            rescuer=self.rescuer,
            shutdown_timeout=shutdown_timeout,
            last_wait=last_wait,
        )

    @property
    def worker_id(self) -> str | None:
        """The name under which the pool locks jobs now; `None` while it has none."""
        return self._identity.worker_id

    @property
    def stuck(self) -> bool:
        """Whether threads are left that did not end."""
        return not self._watch.ended.issuperset(self.parts)

    @property
    def counts(self) -> dict[str, int]:
        """How many jobs were completed, failed and returned, as the database knows it."""
        return {how.value: count for how, count in self.completer.counts.items()}

    def check(self) -> tuple[int | None, int | None]:
        """Return the schema's revision and the version of our functions in it, and look at those.

        Raises `SchemaConflict` where it is not there, `UnsupportedDatabase`, and psycopg's errors.
        """
        link = Link(self._database, "start")
        try:
            revisions = link.run(statements.get_revision(schema=self._schema))
            look_at_functions(link)
            return revisions
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            raise SchemaConflict(
                f"The database {self._database!r} has no queue of this version in the schema "
                f"{self._schema!r}: run manage.py migrate graphile_worker --database "
                f"{self._database}, after zero --fake where the schema was dropped by hand."
            ) from None
        finally:
            link.close()

    def stop(self) -> None:
        """Ask the pool to stop, the second time at once; from any thread or signal handler."""
        self._watch.stop()

    def run(self) -> int:
        """Work to the end; return 0 if drained, or stopped and every job could end, else 1."""
        watch = self._watch
        try:
            for part in self.parts:
                part.start()
            watch.wait_for_a_reason()
            logger.info("Worker %s stops.", self.worker_id)
            self.rescuer.announce_stop()
            self._closing.stop_gently()
        except BaseException:
            # Ctrl-C in a program that has set no handlers: as if it had come twice.
            watch.stops = 2
            raise
        finally:
            self._closing.finish()
            signals.send(signals.worker_stopped, type(self), worker_id=self._name)
        return 1 if self._closing.failed or watch.crashed or watch.stops > 1 else 0

    def _feed(self, jobs: list[LockedJob]) -> None:
        if jobs[0].locked_by == self._identity.worker_id:
            self.executor.feed(jobs)

    def _known_ids(self) -> list[int]:
        # In this order: a job goes from the executor to the completer, and is in both meanwhile.
        # One that still runs under a lost name may have been taken again, and that answer lost.
        jobs = [*self.executor.held_jobs(), *self.completer.jobs()]
        return [job.id for job in jobs if job.locked_by == self.worker_id]

    def _tidy(self) -> None:
        if stale := self.executor.take_back(older_than=LONGEST_WAIT):
            self.completer.give_back(stale)
        if self._max_jobs is not None and self.executor.finished >= self._max_jobs:
            self._watch.tell_done()

    def _may_fetch(self) -> int:
        if self.completer.backlog >= MOST_UNWRITTEN:
            return 0
        if self._max_jobs is None:
            return MOST_UNWRITTEN
        return max(0, self._max_jobs - self.executor.finished - self.executor.held)

    def _on_registered(self) -> None:
        first, self._name = self._name is None, self.worker_id or ""
        if self._on_name is not None:
            self._on_name(self._name)
        if first:
            # In the thread that runs the pool, whose connections are the caller's to look after.
            self._watch.call(
                lambda: signals.send(signals.worker_started, type(self), worker_id=self._name)
            )
        self.fetcher.wake()

    def _on_lost(self, worker_id: str) -> None:
        text = "Worker %s had %s jobs that were not begun, and %s that still run here."
        dropped = self.executor.take_back()
        logger.warning(text, worker_id, len(dropped), self.executor.held)

    def _on_written(self, queue_freed: bool) -> None:
        # The next job of a queue can begin; and only after writing can a drained pool be told.
        if queue_freed or self._once or self._max_jobs is not None:
            self.fetcher.wake()
