"""Counts what a worker has run, by minute and task, until it is written down."""

from __future__ import annotations

import logging
import threading
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import repeat
from typing import Protocol

import psycopg

from django_graphile_worker.jobs import LockedJob, Outcome
from django_graphile_worker.statements import statistics as statements
from django_graphile_worker.statements.base import Statement
from django_graphile_worker.statements.statistics import BOUNDS, Cell

logger = logging.getLogger("graphile_worker")

# How long statistics are kept, in seconds.
KEPT = 31 * 86_400.0

# While the database takes nothing, so many minutes and tasks are kept; what is beyond is dropped.
MOST_CELLS = 2_000

# Of more attempts at one task in one batch than this, only every second is timed, or third, ...
TIMED = 50

Cells = dict[tuple[int, str], Cell]


class Ended(Protocol):
    """An attempt that has ended, at `ended` on the monotonic clock."""

    job: LockedJob
    outcome: Outcome
    ended: float


class Tally:
    """What was counted and not yet written. One thread may add while another one writes.

    A batch at a time. Attempts are all counted; of a large batch only some are timed, which stand
    for the others, since timing each costs a microsecond of the forty that a job takes. Waits are
    told by this machine's clock, against the times that the database gave; a batch counts for the
    minute in which it was written down.
    """

    def __init__(self, schema: str, keep: float = KEPT) -> None:
        self._schema = schema
        self._keep = keep
        self._lock = threading.Lock()
        self._cells: Cells = {}
        self._failing = False

    def add(self, endings: Iterable[Ended]) -> None:
        """Count attempts that have ended."""
        now = time.time()
        ahead = now - time.monotonic()
        minute = int(now // 60)
        by_task: defaultdict[str, list[Ended]] = defaultdict(list)
        for ending in endings:
            by_task[ending.job.task_identifier].append(ending)
        for task, ended in by_task.items():
            cell = Cell()
            step = 1 + len(ended) // TIMED
            # Without a beginning: it was never begun, or given up while it ran.
            began = [each for each in ended[::step] if each.outcome.began]
            cell.runs = _histogram([e.ended - e.outcome.began for e in began], step)
            cell.waits = _histogram(
                [e.outcome.began + ahead - _asked_for(e.job) for e in began], step
            )
            bad = [e.outcome for e in ended if e.outcome.error is not None]
            cell.failed = sum(o.permanent or o.job.is_last_attempt for o in bad)
            cell.retried = len(bad) - cell.failed
            cell.succeeded = len(ended) - len(bad)
            self._merge({(minute, task): cell})

    def flush(self, ask: Callable[[Statement[int]], int]) -> None:
        """Write down what there is; what cannot be written is kept for the next time.

        Raises what `ask` does, but for an error that is a fault of the statistics alone: that is
        logged, once until it works again.
        """
        with self._lock:
            cells, self._cells = self._cells, {}
        if not cells:
            return
        try:
            ask(statements.add_statistics(schema=self._schema, cells=cells))
        except (psycopg.OperationalError, psycopg.InterfaceError):
            self._merge(cells)
            raise
        except psycopg.Error as error:
            self._merge(cells)
            if not self._failing:
                logger.error("Statistics cannot be written, and are tried again: %s", error)
            self._failing = True
        else:
            self._failing = False

    def trim(self, ask: Callable[[Statement[int]], int]) -> None:
        """Delete what is stored and older than `keep` seconds. Raises what `ask` does."""
        # The migration that makes it is to come, or the grant; statistics end no worker.
        with suppress(psycopg.errors.UndefinedTable, psycopg.errors.InsufficientPrivilege):
            ask(statements.trim_statistics(schema=self._schema, seconds=self._keep))

    def _merge(self, cells: Cells) -> None:
        with self._lock:
            for key, more in cells.items():
                cell = self._cells.get(key)
                if cell is not None:
                    cell.succeeded += more.succeeded
                    cell.retried += more.retried
                    cell.failed += more.failed
                    # In place: to make new ones took 20 us for each small batch.
                    _add(cell.waits, more.waits)
                    _add(cell.runs, more.runs)
                elif len(self._cells) < MOST_CELLS:
                    self._cells[key] = more


def _histogram(seconds: list[float], weight: int) -> dict[int, int]:
    counts = Counter(map(bisect_left, repeat(BOUNDS), seconds))
    return {bucket: count * weight for bucket, count in counts.items()}


def _add(histogram: dict[int, int], more: dict[int, int]) -> None:
    for bucket, count in more.items():
        histogram[bucket] = histogram.get(bucket, 0) + count


def _asked_for(job: LockedJob) -> float:
    return job.run_at if job.run_at > job.created_at else job.created_at
