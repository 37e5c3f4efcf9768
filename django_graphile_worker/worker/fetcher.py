"""Takes due jobs from the database, so that the slots have work."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from django_graphile_worker.jobs import LockedJob
from django_graphile_worker.statements import worker as statements
from django_graphile_worker.worker.bell import Bell
from django_graphile_worker.worker.connections import PASSING, Connection, Link
from django_graphile_worker.worker.identity import Identity
from django_graphile_worker.worker.pace import Pace
from django_graphile_worker.worker.service import Moment, OnEnd, Service

logger = logging.getLogger("graphile_worker")

# A fetch that takes longer than this, in seconds, and so much more for each job that it brings,
# walks through jobs that are not ours to take (measured where it does not: 2 ms and 0.02 ms for
# each): the next ones go lane by lane, for this long. Then the plain form is tried again.
TOO_LONG = 0.01
TOO_LONG_EACH = 0.00003
LANES_FOR = 30.0

# How long a drained queue is looked at again where due jobs exist that another transaction has
# locked at this moment, and the pause between two looks, in seconds.
INSIST = 1.0
INSIST_PAUSE = 0.05

# How soon to look again where too much is unwritten, or jobs wait for a slot, in seconds: nobody
# tells when that has changed.
UNWRITTEN_PAUSE = 0.1
WAITING_PAUSE = 1.0

# When to ask again for forbidden flags after that has failed, however many jobs are announced.
FLAGS_PAUSE = 1.0

# After an answer was lost, the server may take a while to end what it was asked, in seconds.
RECOVER_FOR = 10.0
RECOVER_PAUSE = 0.5


class Load(NamedTuple):
    """How busy the slots are: jobs handed to them and not ended; jobs ended since the start."""

    held: int
    finished: int


class Fetcher(Service):
    """Fetches on a connection of its own: when woken, and every `poll_interval` seconds.

    `load()` tells how busy the `concurrency` slots are, `feed(jobs)` hands them jobs, `may_fetch()`
    says how many more jobs may be taken (0 while too many ended jobs wait to be written down),
    `known_ids()` are the jobs that this pool has, ended ones included; `tidy()` is called before
    each look, `idle(link)` after one that found nothing. At most `prefetch` jobs are taken ahead of
    free slots, and none with one of `forbidden_flags()`. `on_dead()` is called where this worker
    was found to be declared dead.

    With `once`, `on_drained()` is called and the thread ends when nothing is left to do;
    `settled()` then tells whether all ended jobs have been written down.
    """

    def __init__(
        self,
        *,
        link: Link,
        schema: str,
        identity: Identity,
        identifiers: Sequence[str],
        forbidden_flags: Callable[[], Sequence[str]],
        concurrency: int,
        prefetch: int,
        poll_interval: float,
        once: bool,
        load: Callable[[], Load],
        feed: Callable[[list[LockedJob]], None],
        tidy: Callable[[], None],
        may_fetch: Callable[[], int],
        settled: Callable[[], bool],
        known_ids: Callable[[], Iterable[int]],
        idle: Callable[[Link], None],
        on_deaf: Callable[[], None],
        on_dead: Callable[[], None],
        on_drained: Callable[[], None],
        on_end: OnEnd,
    ) -> None:
        super().__init__("fetcher", on_end=on_end)
        self._link = link
        self._schema = schema
        self._identity = identity
        self._identifiers = identifiers
        self._forbidden_flags = forbidden_flags
        self._concurrency = concurrency
        self._pace = Pace(concurrency, prefetch)
        self._poll_interval = poll_interval
        self._once = once
        self._load = load
        self._feed = feed
        self._tidy = tidy
        self._may_fetch = may_fetch
        self._settled = settled
        self._known_ids = known_ids
        self._idle = idle
        self._on_deaf = on_deaf
        self._on_dead = on_dead
        self._on_drained = on_drained
        self._recover_until = 0.0
        self._recover_at = 0.0
        self._lanes_until = 0.0
        self._flags_at = 0.0
        self._planned_on: Connection | None = None
        self._insisting_until: float | None = None
        self._bell = Bell()
        self.fetched = Moment()

    def listen_with(self, connection: Connection) -> None:
        """Hear announcements through a connection; `on_deaf()` gives it back when it breaks."""
        self._bell.lend_ear(connection)

    def wake(self) -> None:
        self._bell.ring()

    def wait(self, seconds: float | None) -> None:
        if self._bell.wait(seconds) is not None:
            self._on_deaf()

    def work(self, number: int) -> None:
        self._bell.open()
        try:
            self._link.open_early()  # while the rescuer registers
            while not self.stopping:
                try:
                    pause = self._look()
                except PASSING as error:
                    # Perhaps the server took jobs for us and only its answer was lost.
                    self._recover_until = time.monotonic() + RECOVER_FOR
                    pause = self._link.pause(error)
                if pause is None:
                    return
                if pause:
                    self.wait(pause)
            if self._recover_until:
                self._recover()
        except PASSING as error:
            self._link.pause(error)  # logged; the worker stops without those jobs
        finally:
            self._bell.close()
            self._link.close()

    def _look(self) -> float | None:
        """Fetch once, if there is room. Return how long to wait, or `None` when drained."""
        worker_id = self._identity.worker_id
        if worker_id is None:  # we are woken when there is a name again
            return self._poll_interval
        if self._recover_until and time.monotonic() >= self._recover_at:
            self._recover()
        self._tidy()
        # In this order: an ended job is in the completer's hands before it leaves its slot.
        load = self._load()
        quiet = load.held == 0 and self._settled()
        allowed = self._may_fetch()
        slots, room = self._pace.wanted(load.held, load.finished)
        if not room:
            return min(self._poll_interval, WAITING_PAUSE)
        if not allowed:
            return min(self._poll_interval, UNWRITTEN_PAUSE)
        slots, room = min(slots, allowed), min(room, allowed)
        flags = self._flags()
        if flags is None:
            return min(self._poll_interval, FLAGS_PAUSE)
        jobs = self._fetch(worker_id, slots, room, flags)
        if jobs:
            self._feed(jobs)
            self._insisting_until = None
        self.fetched.occur(jobs)
        if len(jobs) >= (slots or room):
            return 0
        if jobs:
            return self._poll_interval
        if not self._link.run(statements.worker_is_alive(schema=self._schema, worker_id=worker_id)):
            self._on_dead()
        elif self._once and quiet:
            return self._drained(flags)
        else:
            self._idle(self._link)
        return (
            min(self._poll_interval, RECOVER_PAUSE) if self._recover_until else self._poll_interval
        )

    def _fetch(
        self, worker_id: str, slots: int, room: int, flags: Sequence[str]
    ) -> list[LockedJob]:
        connection = self._link.connection()
        planned, self._planned_on = self._planned_on is connection, connection
        began = time.monotonic()
        jobs = self._link.run_prepared(
            statements.set_up_worker,
            statements.get_jobs(
                schema=self._schema,
                worker_id=worker_id,
                identifiers=self._identifiers,
                slots=slots,
                room=room,
                forbidden_flags=flags,
                by_lanes=began < self._lanes_until,
            ),
        )
        ended = time.monotonic()
        too_long = ended - began > TOO_LONG + TOO_LONG_EACH * len(jobs)
        # The first on a connection is planned as well, and says nothing.
        if too_long and planned and began >= self._lanes_until:
            self._lanes_until = ended + LANES_FOR
        return jobs

    def _flags(self) -> Sequence[str] | None:
        if time.monotonic() < self._flags_at:
            return None
        try:
            return self._forbidden_flags()
        except Exception:
            # Somebody else's code; without its answer any job might be a forbidden one.
            logger.exception("The forbidden flags are not known; nothing is fetched.")
            self._flags_at = time.monotonic() + FLAGS_PAUSE
            return None

    def _drained(self, flags: Sequence[str]) -> float | None:
        """Tell the pool, unless there are due jobs that only happened to be locked by others."""
        now = time.monotonic()
        if self._insisting_until is None:
            self._insisting_until = now + INSIST
        if now < self._insisting_until and self._link.run_prepared(
            statements.set_up_worker,
            statements.due_jobs_exist(
                schema=self._schema, identifiers=self._identifiers, forbidden_flags=flags
            ),
        ):
            return INSIST_PAUSE
        self._on_drained()
        return None

    def _recover(self) -> None:
        """Take over the jobs of a fetch whose answer never came."""
        worker_id = self._identity.worker_id
        if worker_id is None:  # whoever declared us dead has freed them
            return
        jobs = self._link.run(
            statements.get_unknown_jobs(
                schema=self._schema, worker_id=worker_id, known_ids=list(self._known_ids())
            )
        )
        now = time.monotonic()
        self._recover_at = now + RECOVER_PAUSE
        if now > self._recover_until:
            self._recover_until = 0.0
        if jobs:
            self._feed(jobs)
