"""What both kinds of slots need of the worker around them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django_graphile_worker.jobs import LockedJob, Outcome
from django_graphile_worker.worker.attempt import AnyTask, Attempts
from django_graphile_worker.worker.line import Line


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Slots have numbers; `begin(slot, job)` and `end(slot, outcome)` are called around a job."""

    line: Line
    find_task: Callable[[str], AnyTask | None]
    attempts: Attempts
    begin: Callable[[int, LockedJob], None]
    end: Callable[[int, Outcome], None]
    stopping: Callable[[], bool]
