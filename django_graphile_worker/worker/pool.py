"""Puts the parts of a worker together, watches over them, and stops them in order."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from typing import NamedTuple

import psycopg

from django_graphile_worker.exceptions import SchemaConflict
from django_graphile_worker.jobs import LockedJob, Outcome
from django_graphile_worker.registry import Registry
from django_graphile_worker.statements import worker as statements
from django_graphile_worker.worker.completer import Completer
from django_graphile_worker.worker.connections import Link
from django_graphile_worker.worker.executor import Executor
from django_graphile_worker.worker.fetcher import Fetcher, Load
from django_graphile_worker.worker.identity import new_worker_id
from django_graphile_worker.worker.listener import Listener
from django_graphile_worker.worker.service import Service

logger = logging.getLogger("graphile_worker")

# Jobs taken ahead of free slots, at most; the fetcher takes fewer where jobs are slow.
PREFETCH = 100

# While so many ended jobs wait to be written down, no others are taken.
MOST_UNWRITTEN = 2_000

# How long the last batch waits for rows that callers' transactions hold, in seconds.
LAST_WAIT = 5.0

# How much longer the completer may take than it was granted before it counts as stuck, and a fetch
# that is on its way when the pool ends, in seconds.
GRACE = 3.0

STOP = "stop"
DRAINED = "drained"


class Ended(NamedTuple):
    """A thread of a part has died of `error`; or, with `None`, all of them have ended."""

    part: Service
    error: BaseException | None


class WorkerPool:
    """One worker: `run()` works until it is drained (`once`), stopped, or a part of it has died.

    `database` is the Django alias of the database, `schema` the queue's schema, unquoted.
    `concurrency` jobs run at a time; due jobs are looked for every `poll_interval` seconds and
    whenever new ones are announced. Jobs that run when `stop()` is called get `shutdown_timeout`
    seconds to end. With `once` it ends when nothing is left to do, and does not listen.
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
        prefetch: int = PREFETCH,
        last_wait: float = LAST_WAIT,
    ) -> None:
        self.worker_id = new_worker_id()
        self._database = database
        self._schema = schema
        self._shutdown_timeout = shutdown_timeout
        # A SimpleQueue may be put to from a signal handler, whatever the main thread is doing; an
        # Event or a Queue may not: the thread could hold its lock just then.
        self._messages: SimpleQueue[object] = SimpleQueue()
        self._stops = 0
        self._drained = False
        self._last_wait = last_wait
        self._crashed = False
        self._failed = False
        self._ended: set[Service] = set()

        self.completer = Completer(
            link=Link(database, "completer"),
            schema=schema,
            worker_id=self.worker_id,
            last_wait=last_wait,
            on_written=self._on_written,
            on_end=self._on_end,
        )
        self.executor = Executor(
            concurrency=concurrency,
            find_task=registry.get,
            on_outcome=self.completer.add,
            on_room=self._wake_fetcher,
            on_end=self._on_end,
        )
        self.fetcher = Fetcher(
            link=Link(database, "fetcher"),
            schema=schema,
            worker_id=self.worker_id,
            identifiers=registry.identifiers(),
            concurrency=concurrency,
            prefetch=prefetch,
            poll_interval=poll_interval,
            once=once,
            load=lambda: Load(self.executor.held, self.executor.finished),
            feed=self.executor.feed,
            may_fetch=lambda: self.completer.backlog < MOST_UNWRITTEN,
            settled=lambda: self.completer.settled,
            # In this order: a job is in the completer's hands before it leaves the executor's.
            known_ids=lambda: [*self.executor.held_ids(), *self.completer.job_ids()],
            on_drained=lambda: self._messages.put(DRAINED),
            on_end=self._on_end,
        )
        self.listener = Listener(
            link=Link(database, "listener"), on_new_jobs=self.fetcher.wake, on_end=self._on_end
        )
        self._once = once
        self._takers: list[Service] = [self.fetcher] if once else [self.fetcher, self.listener]
        self.parts: list[Service] = [self.completer, self.executor, *self._takers]

    @property
    def stuck(self) -> bool:
        """Whether threads are left that did not end."""
        return not self._ended.issuperset(self.parts)

    def check(self) -> tuple[int | None, int | None]:
        """Return the schema's revision and the version of our functions in it.

        Raises `SchemaConflict` where the schema is not there, `UnsupportedDatabase`, and
        `psycopg.OperationalError` where the database cannot be reached.
        """
        link = Link(self._database, "start")
        try:
            return link.run(statements.get_revision(schema=self._schema))
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            raise SchemaConflict(
                f"The database {self._database!r} has no queue in the schema {self._schema!r}: "
                f"run manage.py migrate graphile_worker --database {self._database}."
            ) from None
        finally:
            link.close()

    def stop(self) -> None:
        """Ask the pool to stop, the second time to stop at once.

        Returns at once; may be called from any thread, and from a signal handler.
        """
        self._messages.put(STOP)

    def run(self) -> int:
        """Work to the end and return the exit code.

        It is 0 where the pool was drained, or stopped and every job that ran could end; else 1.
        """
        for part in self.parts:
            part.start()
        try:
            while not self._stops and not self._drained and not self._crashed:
                self._receive(None)
            self._stop_gently()
        except BaseException:
            # Ctrl-C in a program that has set no handlers: as if it had come twice.
            self._stops = 2
            raise
        finally:
            self._finish()
        return 1 if self._failed or self._crashed or self._stops > 1 else 0

    def _stop_gently(self) -> None:
        deadline = time.monotonic() + self._shutdown_timeout
        logger.info("Worker %s stops.", self.worker_id)
        for part in (*self._takers, self.executor):
            part.stop()
        # A fetch may be on its way: what it brings is given back with the rest.
        self._wait_for(self._takers, deadline)
        self.completer.give_back(self.executor.take_back())
        self._wait_for([self.executor], deadline)

    def _finish(self) -> None:
        for part in (*self._takers, self.executor):
            part.stop()
        # Also where nobody had the patience: what a fetch brings once the completer has ended would
        # stay locked by a worker that is gone.
        self._wait_for([self.fetcher], time.monotonic() + GRACE, whatever=True)
        self.completer.give_back(self.executor.take_back())
        why = "at once" if self._stops > 1 else f"within {self._shutdown_timeout:g} s"
        for job in self.executor.abandon():
            self._abandon(job, why)
        if self._stops > 1:
            self.completer.hurry()
        self.completer.stop()
        deadline = time.monotonic() + self._last_wait + GRACE
        if not self._wait_for([self.completer], deadline):
            self.completer.hurry()
            self._wait_for([self.completer], time.monotonic() + GRACE, whatever=True)
        for part in self.parts:
            # One that is stuck is a daemon; its thread ends with the process.
            if not part.join(0.1 if part not in self._ended else None):
                self._failed = True
                logger.error("The %s did not end in time.", part.name)
        self.completer.report_unwritten()

    def _abandon(self, job: LockedJob, why: str) -> None:
        self._failed = True
        logger.error(
            "Job %s (%s) was still running when the worker had to stop.",
            job.id,
            job.task_identifier,
        )
        error = f"WorkerStopped: the worker was told to stop {why}, and this job had not ended."
        self.completer.add(Outcome(job=job, error=error))

    def _wait_for(
        self, parts: Sequence[Service], deadline: float, *, whatever: bool = False
    ) -> bool:
        """Wait until all `parts` have ended; return whether they have.

        Not longer than to `deadline`, and only until the second stop (`whatever`: also after it).
        """
        while not self._ended.issuperset(parts):
            left = deadline - time.monotonic()
            if left <= 0 or (self._stops > 1 and not whatever):
                return False
            self._receive(left)
        return True

    def _receive(self, seconds: float | None) -> None:
        """Take in one message, if one comes within `seconds`."""
        try:
            message = self._messages.get(timeout=seconds)
        except Empty:
            return
        if message is STOP:
            self._stops += 1
        elif message is DRAINED:
            self._drained = True
        elif isinstance(message, Ended):
            if message.error is None:
                self._ended.add(message.part)
            else:
                self._crashed = True

    def _on_end(self, part: Service, error: BaseException | None) -> None:
        self._messages.put(Ended(part, error))

    def _on_written(self, queue_freed: bool) -> None:
        # The next job of a queue can begin; and only after writing can a drained pool be told.
        if queue_freed or self._once:
            self.fetcher.wake()

    def _wake_fetcher(self) -> None:
        self.fetcher.wake()
