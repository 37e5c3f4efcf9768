"""The whole storm: everybody begins, everybody stops, the queue is drained, the ledger is read."""

from __future__ import annotations

import random
import time
from collections import Counter

from django_graphile_worker.statements import worker as statements
from tests import guards
from tests.living import enlist
from tests.storm.actors import LONGEST, TASKS, Actor, Row, Session, Weather, job_text, numbers_in
from tests.storm.callers import Bulk, Dedupe, Isolated, Raw, Single, Undecided
from tests.storm.ledger import Ledger
from tests.storm.operators import Collector, Cutter, Operator, Remover
from tests.storm.workers import Immortal, Mortal
from tests.waiting import eventually

CAST: list[tuple[type[Actor], int]] = [
    (Single, 2),
    (Bulk, 2),
    (Dedupe, 1),
    (Raw, 2),
    (Undecided, 2),
    (Isolated, 1),
    (Remover, 1),
    (Operator, 1),
    (Collector, 1),
    (Cutter, 1),
]
MORTALS = 3

# At the end: how many looks the drain takes, each at all jobs that are left.
DRAIN = 100


class Storm:
    """`seconds` of everybody at once on one queue, calling the functions of a schema.

    It runs in threads of this process, on connections to the test database only, and ends by
    itself: also after a fault, and if statements wait for each other.
    """

    def __init__(self, *, schema: str, functions: str, seconds: float) -> None:
        self.seed = random.randrange(2**32)
        self.seconds = seconds
        self.weather = Weather(schema, functions, self.seed)
        self.ledger: Ledger = self.weather.ledger
        self.workers: list[Actor] = [Immortal(self.weather, 0)]
        self.workers += [Mortal(self.weather, number) for number in range(MORTALS)]
        self.others = [kind(self.weather, n) for kind, count in CAST for n in range(count)]

    def run(self) -> Storm:
        """Let it rage, and look at what is left. Returns itself, with the ledger closed."""
        deadlocks, sessions = self._deadlocks(), set(guards.sessions())
        begun: list[Actor] = []
        try:
            for actor in (*self.workers, *self.others):
                actor.thread.start()
                begun.append(actor)
            self.weather.over.wait(self.seconds)
            # First those who ask and those who disturb; then those who work, with what they hold.
            self._stop(self.others)
            self._stop(self.workers)
        finally:
            self._end(begun, sessions)
        with self.weather.open("drain") as session:
            self._look_for_locks(session)
            self._drain(session)
            self._look_at_what_is_left(session)
        self._close_the_ledger()
        self._wait_for_the_end_of_all_but(sessions)
        if (ended := self._deadlocks() - deadlocks) > 0:
            self.ledger.fault("deadlock", f"PostgreSQL has ended {ended}")
        return self

    @property
    def faults(self) -> Counter[str]:
        return Counter(fault.kind for fault in self.ledger.faults)

    def __str__(self) -> str:
        """All that is needed to understand a failure."""
        counts = ", ".join(f"{name} {count}" for name, count in sorted(self.ledger.counts.items()))
        faults = [str(fault) for fault in self.ledger.faults[:20]]
        return "\n".join([f"seed {self.seed}: {counts}", f"faults: {dict(self.faults)}", *faults])

    def _stop(self, actors: list[Actor]) -> None:
        for actor in actors:
            actor.stop()
        deadline = time.monotonic() + LONGEST + 10
        for actor in actors:
            actor.thread.join(max(0, deadline - time.monotonic()))

    def _end(self, begun: list[Actor], sessions: set[int]) -> None:
        """End whoever is still there, if need be by ending the sessions."""
        if not any(actor.thread.is_alive() for actor in begun):
            return
        self._stop(begun)
        hanging = [actor for actor in begun if actor.thread.is_alive()]
        for actor in hanging:
            self.ledger.fault("stuck", f"{actor.name} did not stop")
        with guards.watching() as observer:
            observer.execute(
                "select pg_terminate_backend(pid) from unnest(%s::int[]) as pid",
                [list(set(guards.sessions()) - sessions)],
            )
        for actor in hanging:
            actor.thread.join(LONGEST)

    def _look_for_locks(self, session: Session) -> None:
        for row in self.weather.query(
            session,
            "select 'job ' || id as what, locked_by from {jobs} where locked_at is not null"
            " or locked_by is not null union all"
            " select 'queue ' || queue_name, locked_by from {queues} where locked_at is not null"
            " or locked_by is not null",
        ):
            self.ledger.fault("locked", f"{row.what} is left locked by {row.locked_by}")

    def _drain(self, session: Session) -> None:
        """Run all that is left, whenever it would have been due."""
        (row,) = self.weather.query(session, "select now() + interval '1 year' as later")
        enlist(session, self.weather.schema, "drain")
        for _ in range(DRAIN):
            with session.cursor() as cursor:
                jobs = statements.get_jobs(
                    schema=self.weather.schema,
                    worker_id="drain",
                    identifiers=TASKS,
                    slots=1000,
                    room=1000,
                    now=row.later,
                ).run(cursor)
                for job in jobs:
                    self.ledger.carry(numbers_in(job.payload))
                statements.complete_jobs(
                    schema=self.weather.schema, worker_id="drain", jobs=jobs
                ).run(cursor)
            self.weather.query(session, "update {queues} set locked_at = null, locked_by = null")
            if not jobs:
                return
            self.ledger.count("drained", len(jobs))
        self.ledger.fault("stuck", "the queue does not drain")

    def _look_at_what_is_left(self, session: Session) -> None:
        """Only jobs without attempts may be left: superseded ones whose worker has died while it
        ran them (that run carried their numbers), and those that an operator has ended.
        """
        conflicts = self.weather.query(session, "select * from {conflicts}")
        self.ledger.count("supersedings", len(conflicts))
        repeated = Counter(row.superseded_job_id for row in conflicts)
        for job_id, count in repeated.items():
            if count > 1:
                self.ledger.fault("record", f"job {job_id} was superseded {count} times")
        ran = {row.superseded_job_id for row in conflicts if row.superseded_state == "locked"}
        for row in self.weather.query(session, "select * from {jobs}"):
            self._account_for(row, ran)

    def _account_for(self, row: Row, ran: set[int]) -> None:
        if row.is_available:
            self.ledger.fault("stuck", f"nobody runs {job_text(row)}")
        elif row.id in ran or not self.weather.corrected:  # the fault's shape keeps no record
            self.ledger.carry(numbers_in(row.payload))
            self.ledger.count("superseded under a worker that died")
        elif row.id not in self.ledger.ended:
            self.ledger.fault("litter", f"nobody has ended {job_text(row)}")

    def _close_the_ledger(self) -> None:
        for kind, numbers in (("lost", self.ledger.lost()), ("phantom", self.ledger.phantoms())):
            for number in sorted(numbers):
                self.ledger.fault(kind, f"request {number}")

    def _wait_for_the_end_of_all_but(self, sessions: set[int]) -> None:
        """A session tells of its deadlocks when it ends."""

        def ended() -> None:
            assert set(guards.sessions()) <= sessions, guards.sessions()

        eventually(ended)

    def _deadlocks(self) -> int:
        with guards.watching() as observer:
            row = observer.execute(
                "select deadlocks from pg_stat_database where datname = current_database()"
            ).fetchone()
        assert row is not None
        return int(row[0])
