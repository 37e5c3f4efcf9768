"""Everybody asks for the same few keys: callers here, Node callers, workers of both kinds."""

from __future__ import annotations

import json
import random
import signal
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from django_graphile_worker import force_unlock_workers
from tests.compatibility.fleet import Fleet, NodePeer, fell
from tests.doors.programs import WITHIN, Program
from tests.storm.actors import KEYS, QUEUES, TASKS, Actor, Weather
from tests.storm.callers import Bulk, Dedupe, Raw, Single, Undecided
from tests.waiting import eventually

# The numbers of Node's requests begin here; those of the callers in this process at 1.
FIRST = 1_000_000

# Of a job that nobody ever runs: the row of its task, or of its named queue, is gone.
STRANDED = """
  not exists (select from {tasks} as task where task.id = job.task_id)
  or job.job_queue_id is not null
    and not exists (select from {queues} as queue where queue.id = job.job_queue_id)
"""

# Of a job that a worker had fetched when another took its key. It has no attempt left, and where
# that worker falls nobody ends it: it is a failed job for somebody to look at.
SUPERSEDED = "job.key is null and job.locked_at is null and job.attempts >= job.max_attempts"


@dataclass
class Report:
    """What came of it. `lost` are numbers that were committed and that no run has carried."""

    lost: set[int]
    missing: list[Any]
    errors: list[Any]
    deadlocks: list[Any]
    counts: Counter[str]
    carried: Counter[str]
    said: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return (
            f"{dict(self.counts)}, carried {dict(self.carried)}, lost {len(self.lost)},"
            f" missing {len(self.missing)}, errors {len(self.errors)},"
            f" deadlocks {len(self.deadlocks)}"
            + "".join(f"; {str(each)[:200]}" for each in [*self.errors, *self.deadlocks][:3])
        )


class KeyedStorm:
    """`worker` is a Node worker's preset; `slots` are our worker's.

    `cast` are the callers in this process.
    With `cleaning`, Node's own cleanup runs beside it all the time, with these tasks of its.
    """

    def __init__(
        self,
        fleet: Fleet,
        seconds: float,
        *,
        version: str = "0.18",
        worker: dict[str, Any] | None = None,
        cast: tuple[type[Actor], ...] = (Single, Bulk, Dedupe, Raw, Undecided),
        cleaning: tuple[str, ...] = (),
        slots: int = 4,
    ) -> None:
        self.fleet = fleet
        self.seconds = seconds
        self.version = version
        self.worker = {"concurrentJobs": 4, **(worker or {})}
        self.cleaning = cleaning
        self.slots = slots
        self.weather = Weather(fleet.schema, fleet.schema, random.randrange(2**32))
        self.actors = [kind(self.weather, number) for number, kind in enumerate(cast)]

    def run(self) -> Report:
        workers = self.fleet.both(
            "--concurrency",
            str(self.slots),
            version=self.version,
            worker=self.worker,
            numbers=TASKS,
        )
        asking = {"first": FIRST, "keys": KEYS, "tasks": TASKS, "queues": QUEUES}
        callers = self.fleet.peer(self.version, "storm", asking)
        cleaner = self.fleet.peer(self.version, "clean", self.cleaning) if self.cleaning else None
        for beside in filter(None, (callers, cleaner)):
            beside.wait_for("is ready.")
        for actor in self.actors:
            actor.thread.start()
        try:
            if not self.weather.over.wait(self.seconds):
                eventually(self._busy, WITHIN)
        finally:
            for actor in self.actors:
                actor.stop()
            for actor in self.actors:
                actor.thread.join(WITHIN)
        callers.process.send_signal(signal.SIGTERM)
        told = json.loads(callers.end().strip().splitlines()[-1])
        if cleaner is not None:
            self.cleaned = json.loads(cleaner.stop().strip().splitlines()[-1])
            self.weather.ledger.count("cleanings", self.cleaned["cleanings"])
        try:
            eventually(lambda: self._drained(workers), WITHIN)
        except AssertionError as error:
            for peer in workers:
                error.add_note(f"{type(peer).__name__} said: {peer.said()[-4000:]}")
            raise
        ledger = self.weather.ledger
        ledger.count("node fell", sum(fell(peer) for peer in workers))
        said = {
            "node" if isinstance(peer, NodePeer) else "django": self.fleet.stop(peer)
            for peer in workers
        }
        return self._report(told, said)

    def _busy(self) -> None:
        """Everybody has done something. On a slow machine that takes longer than the storm."""
        counts = self.weather.ledger.counts
        for actor in self.actors:
            did = "deduplicated" if isinstance(actor, Dedupe) else type(actor).__name__.lower()
            assert counts[did] > 0 or self.weather.over.is_set(), counts
        (carried,) = self.fleet.queue.query(
            "select count(*) filter (where peer = 'node') as by_node,"
            " count(*) filter (where peer = 'django') as by_django,"
            f" count(*) filter (where number >= {FIRST}) as of_node from carried"
        )
        conflicts = self.fleet.queue.query("select id from {conflicts} limit 1")
        done = all(carried.values()) and conflicts != []
        assert done or self.weather.over.is_set(), (carried, conflicts)

    def _drained(self, workers: list[NodePeer | Program]) -> None:
        spared = STRANDED
        if any(fell(peer) for peer in workers):
            self._unlock_nodes()
            spared = f"{STRANDED} or {SUPERSEDED}"
        left = self.fleet.queue.query(f"select * from {{jobs}} as job where not ({spared}) limit 3")
        assert left == [], left
        assert self.fleet.queue.locks() == 0

    def _unlock_nodes(self) -> None:
        """Unlock what a Node worker has left that fell, as the page on compatibility tells."""
        owners = self.fleet.queue.query(
            "select locked_by from {jobs} where locked_by like 'pool-%'"
            " union select locked_by from {queues} where locked_by like 'pool-%'"
        )
        force_unlock_workers(owner["locked_by"] for owner in owners)

    def _report(self, told: dict[str, Any], said: dict[str, str]) -> Report:
        ledger = self.weather.ledger
        assert not any(thread.name.startswith("storm ") for thread in threading.enumerate())
        rows = self.fleet.queue.query("select peer, number from carried")
        seen = {row["number"] for row in rows}
        if ledger.counts["node fell"]:
            for job in self.fleet.queue.query(
                f"select payload from {{jobs}} as job where {SUPERSEDED}"
            ):
                ledger.count("left superseded")
                seen.update(job["payload"])
        faults: dict[str, list[Any]] = {"missing": [], "deadlock": [], "error": []}
        for fault in ledger.faults:
            faults.setdefault(fault.kind, []).append(str(fault))
        ledger.count("node calls", told["calls"])
        return Report(
            lost=(ledger.committed | set(told["committed"])) - seen,
            missing=faults["missing"] + told["missing"],
            errors=faults["error"] + told["errors"],
            deadlocks=faults["deadlock"] + told["deadlocks"],
            counts=ledger.counts,
            carried=Counter(row["peer"] for row in rows),
            said=said,
        )
