"""The contract of adding jobs with keys, in a few lines of Python."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tests.database.stage import Spec


@dataclass
class Job:
    """A job as the model has it; a `run_at` of `None` is the time of the transaction."""

    task: str = "task"
    queue: str | None = None
    payload: Any = None
    run_at: datetime | None = None
    attempts: int = 0
    max_attempts: int = 25
    last_error: str | None = None
    key: str | None = None
    priority: int = 0
    flags: dict[str, bool] | None = None
    revision: int = 0
    locked: bool = False


@dataclass
class Model:
    """The contract of adding one job with a key, in Python."""

    jobs: list[Job]
    superseded: int = 0

    def add(self, each: Spec, preserve_run_at: bool) -> Job:
        payload = {} if each["payload"] is None else json.loads(each["payload"])
        new = Job(
            each["identifier"],
            each["queue_name"],
            payload,
            each["run_at"],
            max_attempts=25 if each["max_attempts"] is None else each["max_attempts"],
            key=each["job_key"],
            priority=each["priority"] or 0,
            flags=dict.fromkeys(each["flags"], True) if each["flags"] else None,
        )
        holder = next(
            (job for job in self.jobs if job.key is not None and job.key == new.key), None
        )
        if holder is not None and not holder.locked and holder.attempts < holder.max_attempts:
            new.revision = holder.revision + 1
            if isinstance(holder.payload, list) and isinstance(payload, list):
                new.payload = holder.payload + payload
            if preserve_run_at and holder.attempts == 0:
                new.run_at = holder.run_at
            holder.__dict__.update(new.__dict__)
            return holder
        if holder is not None:
            holder.key = None
            holder.attempts = holder.max_attempts
            self.superseded += 1
        self.jobs.append(new)
        return new
