"""The order in which a pool's parts stop, so that nothing they hold stays locked."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from django_graphile_worker.context import ids
from django_graphile_worker.jobs import LockedJob, Outcome
from django_graphile_worker.worker.completer import Completer
from django_graphile_worker.worker.executor import Executor
from django_graphile_worker.worker.rescuer import Rescuer
from django_graphile_worker.worker.service import Service
from django_graphile_worker.worker.watch import Watch

logger = logging.getLogger("graphile_worker")

# How much longer the completer may take than it was granted before it counts as stuck, and a fetch
# that is on its way when the pool ends, in seconds.
GRACE = 3.0


class Closing:
    """Stops the parts of a pool: `stop_gently()` once there is a reason to, and `finish()` always.

    `takers` bring jobs in: the fetcher first, and the listener whose ear it borrows. Jobs that run
    get `shutdown_timeout` seconds to end, the completer's last rows `last_wait`. `failed` tells
    whether a job had not ended by then, or a part.
    """

    def __init__(
        self,
        *,
        watch: Watch,
        takers: Sequence[Service],
        executor: Executor,
        completer: Completer,
        rescuer: Rescuer,
        shutdown_timeout: float,
        last_wait: float,
    ) -> None:
        self._watch = watch
        self._takers = takers
        self._executor = executor
        self._completer = completer
        self._rescuer = rescuer
        self._shutdown_timeout = shutdown_timeout
        self._last_wait = last_wait
        self.failed = False

    def stop_gently(self) -> None:
        """Take nothing more, give back what was not begun, and let the rest end."""
        deadline = time.monotonic() + self._shutdown_timeout
        self._stop_taking()
        # A fetch may be on its way: what it brings is given back with the rest.
        self._watch.wait_for(self._takers, deadline)
        self._completer.give_back(self._executor.take_back())
        self._watch.wait_for([self._executor], deadline)

    def finish(self) -> None:
        """Fail what has not ended, write everything down, and leave."""
        watch = self._watch
        self._stop_taking()
        # Also where nobody had the patience: what a fetch brings once the completer has ended would
        # stay locked by a worker that is gone.
        watch.wait_for(self._takers[:1], time.monotonic() + GRACE, whatever=True)
        self._completer.give_back(self._executor.take_back())
        for job in self._executor.abandon():
            self._abandon(job)
        if watch.stops > 1:
            self._completer.hurry()
        self._completer.stop()
        deadline = time.monotonic() + self._last_wait + GRACE
        if not watch.wait_for([self._completer], deadline):
            self._completer.hurry()
            watch.wait_for([self._completer], time.monotonic() + GRACE, whatever=True)
        # The last: until everything is written down, nobody may take us for dead.
        self._rescuer.stop()
        watch.wait_for([self._rescuer], time.monotonic() + GRACE, whatever=True)
        for part in (self._rescuer, self._completer, self._executor, *self._takers):
            # One that is stuck is a daemon; its thread ends with the process.
            if not part.join(0.1 if part not in watch.ended else None):
                self.failed = True
                logger.error("The %s did not end in time.", part.name)
        self._completer.report_unwritten()

    def _stop_taking(self) -> None:
        for part in (*self._takers, self._executor):
            part.stop()

    def _abandon(self, job: LockedJob) -> None:
        self.failed = True
        logger.error(
            "Job %s (%s) was still running when the worker had to stop.",
            job.id,
            job.task_identifier,
            extra=ids(job),
        )
        why = "at once" if self._watch.stops > 1 else f"within {self._shutdown_timeout:g} s"
        error = f"WorkerStopped: the worker was told to stop {why}, and this job had not ended."
        self._completer.add(Outcome(job=job, error=error))
