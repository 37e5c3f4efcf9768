"""Every function at once, at random, one call to a transaction: no error of any kind."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import psycopg
import pytest

from django_graphile_worker.jobs import Outcome
from django_graphile_worker.statements import worker as statements
from testproject.uncorrected import VARIANTS
from tests.database.stage import Session, Stage, spec
from tests.living import enlist

SECONDS = 4
SESSIONS = 6
KEYS = [f"{letter}{number}" for letter in "aB_" for number in range(4)]
WORKERS = ["one", "two"]
NODE = "node"


@dataclass
class Hunt:
    """Sessions that each make one random call after the other."""

    stage: Stage
    dice: random.Random
    calls: list[Callable[[Session], object]]
    counts: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    deadlocks: int = 0

    def run(self, *, until_deadlock: bool = False) -> None:
        end = time.monotonic() + (5 * SECONDS if until_deadlock else SECONDS)
        seeds = [self.dice.random() for _ in range(SESSIONS)]
        sessions = [self.stage.session() for _ in seeds]
        stop = threading.Event()

        def hunt(session: Session, seed: float) -> None:
            dice = random.Random(seed)
            session.autocommit = True
            while not stop.is_set() and time.monotonic() < end:
                call = dice.choice(self.calls)
                try:
                    call(session)
                except psycopg.errors.DeadlockDetected as error:
                    self.deadlocks += 1
                    self.errors.append(f"{call.__name__}: {error}")
                    if until_deadlock:
                        stop.set()
                except (psycopg.Error, AssertionError) as error:
                    self.errors.append(f"{call.__name__}: {error!r}")
                self.counts[call.__name__] += 1

        for session, seed in zip(sessions, seeds, strict=True):
            self.stage.start(session, partial(hunt, session, seed))
        for call in self.stage.calls:
            call.thread.join(10 * SECONDS)
            call.result()


def everything(stage: Stage, dice: random.Random) -> list[Callable[[Session], object]]:
    enlist(stage.observer, stage.schema, *WORKERS, NODE)

    def ids(session: Session) -> list[int]:
        found = stage.query("select id from {jobs} order by random() limit 20", session=session)
        return [row.id for row in found]

    def name() -> str:
        return f"task {dice.randrange(60)}"

    def add_job(session: Session) -> None:
        mode = dice.choice(["replace", "preserve_run_at", "unsafe_dedupe"])
        key = dice.choice([*KEYS, None])
        queue = dice.choice([None, f"lane {dice.randrange(5)}"])
        named = {"job_key": key, "job_key_mode": mode, "queue_name": queue}
        assert stage.add_job(session, name(), [1], **named).key == key

    def add_jobs(session: Session) -> None:
        keys = [dice.choice([*KEYS, None]) for _ in range(dice.randint(1, 10))]
        specs = [spec(name(), [1], job_key=key) for key in keys]
        rows = stage.add_jobs(session, specs, preserve_run_at=dice.random() < 0.5)
        assert [row.key for row in rows] == keys

    def remove_job(session: Session) -> None:
        stage.query("select {remove_job}(%s)", [dice.choice(KEYS)], session)

    def complete_jobs(session: Session) -> None:
        stage.query("select {complete_jobs}(%s)", [ids(session)], session)

    def permanently_fail_jobs(session: Session) -> None:
        stage.query("select {permanently_fail_jobs}(%s)", [ids(session)], session)

    def reschedule_jobs(session: Session) -> None:
        stage.query("select {reschedule_jobs}(%s, attempts => 0)", [ids(session)], session)

    def force_unlock_workers(session: Session) -> None:
        stage.query("select {force_unlock_workers}(%s)", [[*WORKERS, NODE]], session)

    def work(session: Session) -> None:
        worker = dice.choice(WORKERS)
        jobs = stage.take(session, worker)
        third = len(jobs) // 3
        common = {"schema": stage.schema, "worker_id": worker}
        failed = [Outcome(job, "boom") for job in jobs[third : 2 * third]]
        stage.run(statements.complete_jobs(**common, jobs=jobs[:third]), session)
        stage.run(statements.fail_jobs(**common, outcomes=failed), session)
        stage.run(statements.return_jobs(**common, jobs=jobs[2 * third :]), session)
        locks = [
            statements.QueueLock(job.queue_id, job.id, job.locked_at)
            for job in jobs
            if job.queue_id is not None
        ]
        stage.run(statements.free_queues(**common, locks=locks), session)

    def work_one_by_one(session: Session) -> None:
        for job in stage.take(session, NODE)[:10]:
            stage.query(
                "with done as (delete from {jobs} where id = %s and locked_by = %s returning *)"
                " update {queues} as queue set locked_by = null, locked_at = null"
                " from done where queue.id = done.job_queue_id and queue.locked_by = %s",
                [job.id, NODE, NODE],
                session,
            )

    adding = [add_job, add_jobs] * 3
    operating = [remove_job, complete_jobs, permanently_fail_jobs, reschedule_jobs]
    return [*adding, *operating, force_unlock_workers, work, work, work_one_by_one]


def test_single_calls_never_deadlock_nor_fail(stage: Stage) -> None:
    dice = random.Random()
    hunt = Hunt(stage, dice, everything(stage, dice))
    hunt.run()
    assert hunt.errors == []
    # A hunt in which one of them was not called shows nothing of it.
    assert hunt.counts.keys() == {call.__name__ for call in hunt.calls}, hunt.counts


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_hunt_finds_the_fault(stage: Stage, variant: str) -> None:
    stage.use_uncorrected(variant)
    dice = random.Random()
    adding = [call for call in everything(stage, dice) if call.__name__ == "add_jobs"]
    hunt = Hunt(stage, dice, adding)
    hunt.run(until_deadlock=True)
    assert hunt.deadlocks, hunt.counts
