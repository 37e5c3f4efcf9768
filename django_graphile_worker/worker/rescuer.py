"""Registers this worker, gives its signs of life, and frees what dead workers have locked."""

from __future__ import annotations

import logging
import os
import random
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from django_graphile_worker.statements import workers as statements
from django_graphile_worker.statements.base import Statement
from django_graphile_worker.statements.workers import Rescued
from django_graphile_worker.worker.connections import PASSING, Link
from django_graphile_worker.worker.identity import Identity, new_worker_id
from django_graphile_worker.worker.service import Moment, OnEnd, Service
from django_graphile_worker.worker.tally import Tally

logger = logging.getLogger("graphile_worker")

T = TypeVar("T")

# Seconds between two sweeps, or as often as the heart beats if that is more often.
SWEEP_EVERY = 5.0

# What only now and then is worth a look, in seconds between two of them: locks of ours that grow
# old, locks of workers of ours that have no row, rows of workers long dead; and locks of others
# that are four hours old. Each worker does it at times of its own, the first time soon after start.
ORPHANS_EVERY = (45.0, 75.0)
FOREIGN_EVERY = (480.0, 600.0)

# Seconds between two times that statistics are written.
STATISTICS_EVERY = (8.0, 12.0)

# No statement here may hold up the next heartbeat for long: seconds, at most.
LONGEST_STATEMENT = 5.0

# How often to try to leave, when the connection is lost just then.
LAST_TRIES = 2


class Rescuer(Service):
    """Keeps this worker's row alive on a connection of its own, and looks after the others'.

    It registers under a new name, beats every `heartbeat` seconds, and sweeps. Other
    workers declare it dead after `stale_after` seconds of silence; it then calls `on_lost(name)`,
    takes another name and calls `on_registered()`, as it does at the start. `on_freed()` is called
    when a sweep has freed jobs or named queues.

    What `tally` has counted it writes down every ten seconds, and when stopped.

    Stopped, it takes its row down; so it is stopped last, when nothing is locked by its name.
    """

    def __init__(
        self,
        *,
        link: Link,
        schema: str,
        identity: Identity,
        concurrency: int,
        heartbeat: float,
        stale_after: float,
        on_registered: Callable[[], None],
        on_lost: Callable[[str], None],
        on_freed: Callable[[], None],
        on_end: OnEnd,
        tally: Tally | None = None,
    ) -> None:
        super().__init__("rescuer", on_end=on_end)
        self._link = link
        self._schema = schema
        self._identity = identity
        self._concurrency = concurrency
        self._heartbeat = heartbeat
        self._stale_after = stale_after
        self._sweep_every = min(heartbeat, SWEEP_EVERY)
        self._on_registered = on_registered
        self._on_lost = on_lost
        self._on_freed = on_freed
        self._tally = tally or Tally(schema)
        self._name: str | None = None
        self._doubted = False
        self._says_it_stops = False
        self._heard_at = self._next_beat = self._next_sweep = 0.0
        start = time.monotonic()
        self._next_flush = start + _between(STATISTICS_EVERY)
        self._next_orphans = start + _between((0, ORPHANS_EVERY[0]))
        self._next_foreign = start + _between((0, ORPHANS_EVERY[0]))
        longest = min(LONGEST_STATEMENT, stale_after / 4)
        # One object: the link knows by it what it has set up.
        self._settings = lambda local: statements.prepare_upkeep(seconds=longest, local=local)
        self.registered = Moment()
        self.beaten = Moment()
        self.swept = Moment()

    def report_dead(self) -> None:
        """Look at once whether this worker counts as alive: another part has seen that not."""
        self._doubted = True
        self.wake()

    def announce_stop(self) -> None:
        """Write down that the worker has begun to stop; its signs of life go on."""
        self._says_it_stops = True
        self.wake()

    def work(self, number: int) -> None:
        try:
            while not self.stopping:
                try:
                    pause = self._step()
                except PASSING as error:
                    # Later than with the next heartbeat it may be too late.
                    pause = min(self._link.pause(error), self._heartbeat)
                self.wait(max(0, pause))
            self._leave()
            with suppress(*PASSING):
                self._tally.flush(self._ask)
        finally:
            self._link.close()

    def _step(self) -> float:
        """Do what is due. Return how long nothing will be."""
        name = self._identity.worker_id
        if name is None:
            name = self._register()
        elif self._doubted or time.monotonic() >= self._next_beat:
            self._doubted = False
            if not self._beat(name):
                return 0
        if self._says_it_stops:
            self._ask(statements.stopping_worker(schema=self._schema, worker_id=name))
            self._says_it_stops = False
        if time.monotonic() >= self._next_sweep:
            self._sweep(name)
        if time.monotonic() >= self._next_flush:
            # Before it is tried: where it fails, the rest of a step has its turn again.
            self._next_flush = time.monotonic() + _between(STATISTICS_EVERY)
            self._tally.flush(self._ask)
        return min(self._next_beat, self._next_sweep, self._next_flush) - time.monotonic()

    def _register(self) -> str:
        while True:
            # The same name again where an answer was lost, or a row would be left that is no one's.
            self._name = self._name or new_worker_id()
            now = time.monotonic()
            if self._ask(
                statements.register_worker(
                    schema=self._schema,
                    worker_id=self._name,
                    host=socket.gethostname(),
                    pid=os.getpid(),
                    concurrency=self._concurrency,
                    heartbeat=self._heartbeat,
                    stale_after=self._stale_after,
                )
            ):
                break
            self._name = None
        name, self._name = self._name, None
        self._heard_at, self._next_beat = now, now + self._heartbeat
        self._next_sweep = now + _between((0, self._sweep_every))
        self._identity.worker_id = name
        self._on_registered()
        self.registered.occur(name)
        return name

    def _beat(self, name: str) -> bool:
        now = time.monotonic()
        if name in self._ask(statements.beat(schema=self._schema, worker_ids=[name])):
            self._heard_at, self._next_beat = now, now + self._heartbeat
            self.beaten.occur(name)
            return True
        logger.error(
            "Worker %s was declared dead: its last sign of life was %.0f s ago. Its jobs run "
            "elsewhere, and what it has not written down of them is dropped; it goes on under "
            "another name.",
            name,
            now - self._heard_at,
            extra={"worker_id": name},
        )
        self._identity.worker_id = None
        self._on_lost(name)
        return False

    def _sweep(self, name: str) -> None:
        now = time.monotonic()
        orphans, foreign = now >= self._next_orphans, now >= self._next_foreign
        rescued = self._ask(
            statements.rescue(schema=self._schema, by=name, orphans=orphans, foreign=foreign)
        )
        _report(rescued)
        if rescued.jobs or rescued.queues:
            self._on_freed()
        more = rescued.jobs >= statements.MOST_JOBS
        trimmed = self._ask(statements.trim_job_errors(schema=self._schema))
        more = more or trimmed >= statements.MOST_ERRORS
        if orphans:
            self._ask(statements.renew_locks(schema=self._schema, worker_ids=[name]))
            self._ask(statements.forget_workers(schema=self._schema))
            self._tally.trim(self._ask)
            self._next_orphans = now + _between(ORPHANS_EVERY)
        if foreign:
            self._next_foreign = now + _between(FOREIGN_EVERY)
        self._next_sweep = now + (0 if more else self._sweep_every * _between((0.8, 1.2)))
        self.swept.occur(rescued)

    def _leave(self) -> None:
        name = self._identity.worker_id
        for left in reversed(range(LAST_TRIES)):
            if name is None:
                return
            try:
                self._ask(statements.leave_worker(schema=self._schema, worker_id=name))
                return
            except PASSING as error:
                pause = self._link.pause(error)
                if left:
                    self.wait(pause)

    def _ask(self, statement: Statement[T]) -> T:
        return self._link.run_prepared(self._settings, statement)


def _report(rescued: Rescued) -> None:
    for name in rescued.workers:
        logger.warning("Worker %s is dead.", name, extra={"worker_id": name})
    if rescued.jobs or rescued.queues:
        logger.warning(
            "Freed %d jobs (%d of them without an attempt left) and %d named queues of %s.",
            rescued.jobs,
            rescued.failed,
            rescued.queues,
            ", ".join(rescued.owners) or "dead workers",
        )


def _between(bounds: tuple[float, float]) -> float:
    return random.uniform(*bounds)  # noqa: S311
