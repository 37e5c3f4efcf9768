"""`--processes N`, and `--reload`: starts worker processes, watches over them, and stops them.

The processes are new programs, never forks: a fork would share open connections and locks.
"""

from __future__ import annotations

import logging
import random
import signal
import time
from collections.abc import Sequence
from queue import Empty, SimpleQueue

from django.utils.autoreload import get_child_arguments

from django_graphile_worker.worker.child import Child, Ended, Named
from django_graphile_worker.worker.keeper import Keeper
from django_graphile_worker.worker.reloading import CHANGED, INTERVAL, Snapshot

logger = logging.getLogger("graphile_worker")

# Seconds before a process that died is started again: twice as long each time, with jitter, until
# one has worked for as long as counts as healthy.
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 10.0
HEALTHY = 10.0

# How much longer than a worker should need a process may take to stop before it is killed, in
# seconds: a worker grants the rows that others have locked some time, too.
GRACE = 20.0

# How long the database may take to free what the last processes had, in seconds.
LAST_WORDS = 30.0

# Asked so often, processes are killed.
KILL = 3

STOP = "stop"


class Slot:
    """The place of one process: who is in it, or when the next one comes."""

    def __init__(self) -> None:
        self.child: Child | None = None
        self.start_at: float | None = 0.0
        self.failures = 0
        self.until_changed: Snapshot | None = None

    @property
    def is_over(self) -> bool:
        return self.child is None and self.start_at is None and self.until_changed is None


class Supervisor:
    """Runs `processes` children until it is stopped; with `once`, until they have ended.

    A child has the command line of this process. One that ends is started again: at once if it
    ended well (`--max-jobs`, or a file has changed), else after a growing pause; with `reload` and
    not even started, when a file changes. `shutdown_timeout` is what the children grant their jobs.
    """

    def __init__(
        self,
        *,
        processes: int,
        keeper: Keeper,
        shutdown_timeout: float,
        once: bool = False,
        reload: bool = False,
        command: Sequence[str] | None = None,
    ) -> None:
        self._command = command or [*map(str, get_child_arguments()), "--processes", "1"]
        self._keeper = keeper
        self._shutdown_timeout = shutdown_timeout
        self._once = once
        self._reload = reload
        # It may be put to from a signal handler; see the pool.
        self._messages: SimpleQueue[object] = SimpleQueue()
        self._slots = [Slot() for _ in range(processes)]
        self._stops = 0
        self._kill_at: float | None = None
        self._failed = False

    def stop(self) -> None:
        """Ask the children to stop, the second time at once; the third time they are killed.

        Returns at once; may be called from any thread, and from a signal handler.
        """
        self._messages.put(STOP)

    def run(self) -> int:
        """Work to the end; return 0 if every child ended well, else 1."""
        self._keeper.start()
        try:
            while True:
                self._start_the_due()
                if all(slot.is_over for slot in self._slots):
                    break
                self._receive()
                if self._kill_at is not None and time.monotonic() >= self._kill_at:
                    self._kill("did not stop in time")
        finally:
            self._end_what_is_left()
            self._keeper.stop()
            self._keeper.join(LAST_WORDS)
        return 1 if self._failed else 0

    def _start_the_due(self) -> None:
        for slot in self._slots:
            if slot.until_changed is not None and slot.until_changed.has_changed():
                slot.until_changed, slot.start_at = None, 0.0
            if slot.start_at is not None and time.monotonic() >= slot.start_at:
                slot.start_at = None
                try:
                    slot.child = Child(
                        self._command,
                        self._messages,
                        reload=self._reload,
                        own_group=len(self._slots) > 1,
                    )
                except OSError as error:
                    # The machine has no memory or no process left, for now.
                    self._pause(slot, f"A process could not be started ({error})")

    def _receive(self) -> None:
        """Take in one message, or wait until something else is due."""
        due = [slot.start_at for slot in self._slots if slot.start_at is not None]
        if self._kill_at is not None:
            due.append(self._kill_at)
        if any(slot.until_changed is not None for slot in self._slots):
            due.append(time.monotonic() + INTERVAL)
        try:
            message = self._messages.get(
                timeout=max(0.0, min(due) - time.monotonic()) if due else None
            )
        except Empty:
            return
        if isinstance(message, Named):
            self._on_named(message.child, message.worker_id)
        elif isinstance(message, Ended):
            self._on_ended(message.child, message.code)
        else:
            self._on_stop()

    def _on_stop(self) -> None:
        self._stops += 1
        granted = GRACE + (self._shutdown_timeout if self._stops == 1 else 0)
        self._kill_at = time.monotonic() + granted
        for slot in self._slots:
            slot.start_at = slot.until_changed = None
            if slot.child is not None:
                slot.child.channel.send("stop", self._stops)
        if self._stops == 1:
            logger.info("The worker's processes stop.")
        elif self._stops < KILL:
            logger.warning("The worker's processes stop at once.")
        else:
            self._kill("was told to stop for the third time")

    def _kill(self, why: str) -> None:
        self._kill_at = None
        for slot in self._slots:
            if slot.child is not None and slot.child.process.poll() is None:
                logger.error("Process %s %s; it is killed.", slot.child.process.pid, why)
                slot.child.process.kill()

    def _end_what_is_left(self) -> None:
        """Leave no process behind where `run` itself fails."""
        self._kill("is left")
        for slot in self._slots:
            if slot.child is not None:
                slot.child.process.wait()
                if slot.child.worker_id is not None:
                    self._keeper.bury(slot.child.worker_id)

    def _on_named(self, child: Child, worker_id: str) -> None:
        if all(slot.child is not child for slot in self._slots):
            # Its end was heard of first.
            self._keeper.bury(worker_id)
            return
        if child.worker_id is not None:
            self._keeper.remove(child.worker_id)
        child.worker_id = worker_id
        child.named_at = child.named_at or time.monotonic()
        self._keeper.add(worker_id)

    def _on_ended(self, child: Child, code: int) -> None:
        slot = next(slot for slot in self._slots if slot.child is child)
        slot.child = None
        child.channel.close()
        if child.worker_id is not None:
            self._keeper.bury(child.worker_id)
        if self._stops or self._once:
            # One that had not begun to work was ended by the signal itself.
            if code not in (0, CHANGED) and not (self._stops and child.worker_id is None):
                self._failed = True
                logger.error("Process %s ended with %s.", child.process.pid, _text(code))
        elif code in (0, CHANGED):
            slot.start_at, slot.failures = 0.0, 0
        elif self._reload and child.worker_id is None:
            slot.until_changed = Snapshot()
            logger.error("The worker cannot start; it is tried again when a file has changed.")
        else:
            if child.named_at is not None and time.monotonic() - child.named_at >= HEALTHY:
                slot.failures = 0
            self._pause(slot, f"Process {child.process.pid} ended with {_text(code)}")

    def _pause(self, slot: Slot, why: str) -> None:
        """Start the slot's next process later, and the later the more often it failed."""
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2**slot.failures)
        pause *= random.uniform(0.5, 1)  # noqa: S311
        slot.failures += 1
        slot.start_at = time.monotonic() + pause
        logger.error("%s; another one starts in %.1f s.", why, pause)


def _text(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
