"""Keeps a parent's children alive in the database, and frees at once what the dead ones had."""

from __future__ import annotations

import logging
import time
from collections import deque

from django_graphile_worker.statements import workers as statements
from django_graphile_worker.worker.connections import PASSING, Link
from django_graphile_worker.worker.service import Moment, OnEnd, Service

logger = logging.getLogger("graphile_worker")

# No statement may hold up the next heartbeat for longer, in seconds.
LONGEST_STATEMENT = 5.0

# How long the last dead are tried to be freed where the database does not answer, in seconds. If it
# stays away, other workers free them when they have been silent for long enough.
LAST_TRIES = 5.0

# Between two looks at the locks of those who cannot look themselves, in seconds. Node takes a lock
# for stale after four hours; ours are renewed after three.
RENEW_EVERY = 60.0


class Keeper(Service):
    """Beats every `heartbeat` seconds for the workers that live, on a connection of its own.

    Each worker also beats for itself; but one whose task holds the interpreter's lock for long
    cannot, and it is not dead as long as its process lives.
    """

    def __init__(self, *, link: Link, schema: str, heartbeat: float, on_end: OnEnd) -> None:
        super().__init__("keeper", on_end=on_end)
        self._link = link
        self._schema = schema
        self._heartbeat = heartbeat
        # One object: the link knows by it what it has set up.
        self._settings = lambda local: statements.prepare_upkeep(
            seconds=min(LONGEST_STATEMENT, heartbeat), local=local
        )
        self._living: set[str] = set()
        self._dead: deque[str] = deque()
        self._beat_at = 0.0
        self._renew_at = time.monotonic() + RENEW_EVERY
        self._given_up_at: float | None = None
        self.freed = Moment()

    def add(self, worker_id: str) -> None:
        """Beat for this worker from now on."""
        self._living = self._living | {worker_id}

    def remove(self, worker_id: str) -> None:
        """Beat no more for this worker: it has taken another name."""
        self._living = self._living - {worker_id}

    def bury(self, worker_id: str) -> None:
        """Free what this worker has locked: its process has ended."""
        self.remove(worker_id)
        self._dead.append(worker_id)
        self.wake()

    def work(self, number: int) -> None:
        try:
            while self._dead or not self.stopping:
                try:
                    # First: where the dead cannot be freed, the living are not to be silent.
                    pause = self._beat()
                    self._free_the_dead()
                    self._renew_locks()
                except PASSING as error:
                    pause = self._link.pause(error)
                    if self.stopping and self._has_lost_patience():
                        return
                self.wait(pause)
        finally:
            if self._dead:
                logger.error(
                    "What dead processes had locked is left to other workers to free: %s.",
                    ", ".join(self._dead),
                )
            self._link.close()

    def _free_the_dead(self) -> None:
        while self._dead:
            # Taken out only afterwards: the answer may not come.
            worker_id = self._dead[0]
            freed = self._link.run_prepared(
                self._settings, statements.rescue(schema=self._schema, worker_ids=[worker_id])
            )
            if freed.jobs or freed.queues:
                logger.warning(
                    "Worker %s is dead: %d jobs and %d named queues were freed, "
                    "%d of the jobs had no attempt left.",
                    worker_id,
                    freed.jobs,
                    freed.queues,
                    freed.failed,
                    extra={"worker_id": worker_id},
                )
            if freed.jobs < statements.MOST_JOBS:
                self._dead.popleft()
                self.freed.occur(freed)

    def _beat(self) -> float:
        """Beat if it is time to; return how long it is to the next one."""
        left = self._beat_at - time.monotonic()
        if left > 0:
            return left
        if living := self._living:
            self._link.run_prepared(
                self._settings, statements.beat(schema=self._schema, worker_ids=sorted(living))
            )
        self._beat_at = time.monotonic() + self._heartbeat
        return self._heartbeat

    def _renew_locks(self) -> None:
        if time.monotonic() < self._renew_at:
            return
        if living := self._living:
            self._link.run_prepared(
                self._settings,
                statements.renew_locks(schema=self._schema, worker_ids=sorted(living)),
            )
        self._renew_at = time.monotonic() + RENEW_EVERY

    def _has_lost_patience(self) -> bool:
        now = time.monotonic()
        if self._given_up_at is None:
            self._given_up_at = now + LAST_TRIES
        return now >= self._given_up_at
