"""How jobs ended, and the statements that write it down."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import psycopg

from django_graphile_worker.jobs import LockedJob
from django_graphile_worker.statements import worker as statements
from django_graphile_worker.statements.base import Statement
from django_graphile_worker.statements.worker import Ended, QueueLock
from django_graphile_worker.worker.connections import Link

logger = logging.getLogger("graphile_worker")

# The first pause before a job that was missed is tried again, in seconds.
FIRST_PAUSE = 0.01


class How(Enum):
    """How a job ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    RETURNED = "returned"


@dataclass(slots=True)
class Ending:
    """A job that has ended here, until the database knows of it and its queue is free."""

    job: LockedJob
    how: How
    error: str
    job_held: bool
    queue_held: bool
    # A connection broke while this was written: if the job is gone now, it was perhaps us.
    in_doubt: bool = False
    pause: float = FIRST_PAUSE
    due: float = 0.0


class Writer:
    """Writes batches of endings through a link.

    Afterwards `job_held` and `queue_held` of an ending say what is to be tried again, because
    another transaction had locked the row at that moment.
    """

    def __init__(self, link: Link, schema: str, worker_id: str) -> None:
        self._link = link
        self._schema = schema
        self._worker_id = worker_id

    def write(self, batch: Sequence[Ending]) -> bool:
        """Write a batch; return whether a named queue was freed. May raise what `Link.run` does."""
        run = [ending for ending in batch if ending.how is not How.RETURNED]
        returned = [ending for ending in batch if ending.how is How.RETURNED]
        # The queue first: its next job may begin, whoever holds the row of the one that ended.
        # A job that is given back is first again in its queue, so there the job comes first.
        freed = self._free_queues(run)
        self._end(How.COMPLETED, run)
        self._end(How.FAILED, run)
        self._end(How.RETURNED, returned)
        return self._free_queues(returned) or freed

    def _free_queues(self, batch: Sequence[Ending]) -> bool:
        endings = [ending for ending in batch if ending.queue_held]
        if not endings:
            return False
        locks = [
            QueueLock(ending.job.queue_id, ending.job.locked_at)
            for ending in endings
            if ending.job.queue_id is not None
        ]
        held = self._link.run(
            statements.free_queues(schema=self._schema, worker_id=self._worker_id, locks=locks)
        )
        for ending in endings:
            ending.queue_held = ending.job.queue_id in held
        return True

    def _end(self, how: How, batch: Sequence[Ending]) -> None:
        endings = [ending for ending in batch if ending.how is how and ending.job_held]
        if not endings:
            return
        try:
            ended = self._send(how, endings)
        except psycopg.DataError:
            # The database is not in UTF-8, and an error's text holds a character it cannot store.
            if how is not How.FAILED:
                raise
            for ending in endings:
                ending.error = ending.error.encode("ascii", "backslashreplace").decode()
            ended = self._send(how, endings)
        missed = {}
        if ended.ids is not None:
            missed = {e.job.id: e for e in endings if e.job.id not in ended.ids}
            held = self._link.run(
                statements.get_held_jobs(schema=self._schema, worker_id=self._worker_id, ids=missed)
            )
        for ending in endings:
            ending.job_held = ending.job.id in missed and ending.job.id in held
            if ending.job.id in missed and not ending.job_held:
                logger.log(
                    logging.INFO if ending.in_doubt else logging.WARNING,
                    "Job %s (%s) was not this worker's any more; that it was %s is dropped.",
                    ending.job.id,
                    ending.job.task_identifier,
                    how.value,
                )

    def _send(self, how: How, endings: list[Ending]) -> Ended:
        jobs = [ending.job for ending in endings]
        # Only a job that was taken with a key can have been superseded. The record of that is
        # written in the same transaction; all other jobs go without one.
        keyed = any(job.key is not None for job in jobs)
        with self._link.transaction() if keyed else contextlib.nullcontext():
            ended = self._link.run(self._statement(how, jobs, endings))
            outcomes = (
                (ended.superseded, How.COMPLETED if how is How.RETURNED else how),
                (ended.runs_again, How.RETURNED),
            )
            for job_ids, outcome in outcomes:
                if job_ids:
                    self._link.run(
                        statements.finish_conflicts(
                            schema=self._schema, job_ids=job_ids, outcome=outcome.value
                        )
                    )
        return ended

    def _statement(
        self, how: How, jobs: Sequence[LockedJob], endings: Sequence[Ending]
    ) -> Statement[Ended]:
        schema, worker_id = self._schema, self._worker_id
        if how is How.COMPLETED:
            return statements.complete_jobs(schema=schema, worker_id=worker_id, jobs=jobs)
        if how is How.RETURNED:
            return statements.return_jobs(schema=schema, worker_id=worker_id, jobs=jobs)
        errors = [ending.error for ending in endings]
        return statements.fail_jobs(schema=schema, worker_id=worker_id, jobs=jobs, errors=errors)
