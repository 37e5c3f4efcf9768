"""How jobs ended, and the statements that write it down."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from enum import Enum

import psycopg

from django_graphile_worker.context import ids
from django_graphile_worker.jobs import LockedJob, Outcome
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


class Ending:
    """A job that has ended here, until the database knows of it and its queue is free.

    Nearly all are written with the first try and dropped, thirty thousand a second: what only the
    others need stands in the class until then.
    """

    job_held = True
    queue_held = False
    # A connection broke while this was written: if the job is gone now, it was perhaps us.
    in_doubt = False
    pause = FIRST_PAUSE
    due = 0.0

    def __init__(self, outcome: Outcome, how: How, ended: float = 0.0) -> None:
        self.outcome = outcome
        self.job: LockedJob = outcome.job
        self.how = how
        self.ended = ended
        if outcome.job.queue_id is not None:
            self.queue_held = True

    @property
    def held(self) -> bool:
        """Whether there is something left to be written."""
        return self.job_held or self.queue_held


class Writer:
    """Writes batches of endings through a link.

    Afterwards `job_held` and `queue_held` of an ending say what is to be tried again, because
    another transaction had locked the row at that moment.
    """

    def __init__(self, link: Link, schema: str) -> None:
        self._link = link
        self._schema = schema

    def write(self, worker_id: str, batch: Sequence[Ending]) -> bool:
        """Write a batch of jobs that were taken under the name `worker_id`.

        Returns whether a named queue was freed. May raise what `Link.run` does.
        """
        run = [ending for ending in batch if ending.how is not How.RETURNED]
        returned = [ending for ending in batch if ending.how is How.RETURNED]
        # The queue first: its next job may begin, whoever holds the row of the one that ended.
        # A job that is given back is first again in its queue, so there the job comes first.
        freed = self._free_queues(worker_id, run)
        self._end(worker_id, How.COMPLETED, run)
        self._end(worker_id, How.FAILED, run)
        self._end(worker_id, How.RETURNED, returned)
        return self._free_queues(worker_id, returned) or freed

    def _free_queues(self, worker_id: str, batch: Sequence[Ending]) -> bool:
        endings = [ending for ending in batch if ending.queue_held]
        if not endings:
            return False
        locks = [
            QueueLock(ending.job.queue_id, ending.job.id, ending.job.locked_at)
            for ending in endings
            if ending.job.queue_id is not None
        ]
        held = self._link.run_prepared(
            statements.set_up_worker,
            statements.free_queues(schema=self._schema, worker_id=worker_id, locks=locks),
        )
        for ending in endings:
            ending.queue_held = ending.job.queue_id in held
        return True

    def _end(self, worker_id: str, how: How, batch: Sequence[Ending]) -> None:
        endings = [ending for ending in batch if ending.how is how and ending.job_held]
        if not endings:
            return
        try:
            ended = self._send(worker_id, how, endings)
        except psycopg.DataError:
            # The database is not in UTF-8, and an error's text holds a character it cannot store.
            if how is not How.FAILED:
                raise
            for ending in endings:
                error = (ending.outcome.error or "").encode("ascii", "backslashreplace").decode()
                ending.outcome = ending.outcome._replace(error=error)
            ended = self._send(worker_id, how, endings)
        if ended.ids is None:
            for ending in endings:
                ending.job_held = False
            return
        missed = [ending.job.id for ending in endings if ending.job.id not in ended.ids]
        held = self._link.run(
            statements.get_held_jobs(schema=self._schema, worker_id=worker_id, ids=missed)
        )
        for ending in endings:
            ending.job_held = ending.job.id in held and ending.job.id not in ended.ids
            if not ending.job_held and ending.job.id not in ended.ids:
                logger.log(
                    logging.INFO if ending.in_doubt else logging.WARNING,
                    "Job %s (%s) was not this worker's any more; that it was %s is dropped.",
                    ending.job.id,
                    ending.job.task_identifier,
                    how.value,
                    extra=ids(ending.job),
                )

    def _send(self, worker_id: str, how: How, endings: list[Ending]) -> Ended:
        statement = self._statement(worker_id, how, endings)
        # Only a job that was taken with a key can have been superseded. The record of that is
        # written in the same transaction; all other jobs go without one.
        if all(ending.job.key is None for ending in endings):
            return self._link.run_prepared(statements.set_up_worker, statement)
        with self._link.transaction():
            ended = self._link.run(statement)
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

    def _statement(self, worker_id: str, how: How, endings: Sequence[Ending]) -> Statement[Ended]:
        schema = self._schema
        if how is How.FAILED:
            outcomes = [ending.outcome for ending in endings]
            return statements.fail_jobs(schema=schema, worker_id=worker_id, outcomes=outcomes)
        jobs = [ending.job for ending in endings]
        if how is How.COMPLETED:
            return statements.complete_jobs(schema=schema, worker_id=worker_id, jobs=jobs)
        return statements.return_jobs(schema=schema, worker_id=worker_id, jobs=jobs)
