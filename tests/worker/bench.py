"""An executor alone, fed by hand: what its tests share."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import Any

from django_graphile_worker.jobs import LockedJob, Outcome
from django_graphile_worker.registry import Registry
from django_graphile_worker.worker.executor import Executor

WITHIN = 10

NOW = datetime.now(UTC)


def job(job_id: int, task: str = "task", payload: object = None, **fields: Any) -> LockedJob:
    """A job as the fetcher brings it, without payload a call without arguments."""
    values: dict[str, Any] = {
        "id": job_id,
        "task_identifier": task,
        "payload": json.dumps({} if payload is None else payload),
        "key": None,
        "queue_id": None,
        "attempts": 1,
        "max_attempts": 25,
        "priority": 0,
        "run_at": NOW.timestamp(),
        "created_at": NOW.timestamp(),
        "revision": 0,
        "flags": None,
        "locked_at": NOW,
        "locked_by": "worker",
    }
    return LockedJob(**{**values, **fields})


class Bench:
    """An executor at work, and what it tells."""

    def __init__(self, registry: Registry, concurrency: int, **options: Any) -> None:
        self.outcomes: SimpleQueue[Outcome] = SimpleQueue()
        self.rooms: SimpleQueue[None] = SimpleQueue()
        self.ended: SimpleQueue[BaseException | None] = SimpleQueue()
        values: dict[str, Any] = {
            "on_outcome": self.outcomes.put,
            "on_room": lambda: self.rooms.put(None),
            "on_end": lambda part, error: self.ended.put(error),
        }
        self.executor = Executor(
            concurrency=concurrency, find_task=registry.get, **{**values, **options}
        )
        self.executor.begun.watch()
        self.executor.start()

    def feed(self, *jobs: LockedJob) -> None:
        self.executor.feed(jobs)

    def begun(self) -> LockedJob:
        """The next job that begins."""
        begun: LockedJob = self.executor.begun.wait(WITHIN)
        return begun

    def outcome(self) -> Outcome:
        return self.outcomes.get(timeout=WITHIN)

    def outcome_of(self, given: LockedJob) -> Outcome:
        self.feed(given)
        outcome = self.outcome()
        assert outcome.job is given
        return outcome

    def run(self, given: LockedJob) -> str | None:
        """Run one job; return its error."""
        return self.outcome_of(given).error


MakeBench = Callable[..., Bench]
RunJobs = Callable[..., list[Any]]


class Gate:
    """What tasks wait at until a test lets some of them go on."""

    def __init__(self) -> None:
        self._open = threading.Semaphore(0)

    def wait(self) -> None:
        assert self._open.acquire(timeout=WITHIN)

    def let_go(self, number: int = 1) -> None:
        self._open.release(number)
