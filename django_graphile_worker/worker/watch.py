"""What the parts of a pool, and whoever stops it, tell the thread that watches over them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import NamedTuple

from django_graphile_worker.worker.service import Service

STOP = "stop"
DONE = "done"


class Ended(NamedTuple):
    """A thread of a part has died of `error`; or, with `None`, all of them have ended."""

    part: Service
    error: BaseException | None


class Watch:
    """Takes messages in from any thread; one thread looks at what they come to."""

    def __init__(self) -> None:
        # A SimpleQueue may be put to from a signal handler, whatever the main thread is doing; an
        # Event or a Queue may not: the thread could hold its lock just then.
        self._messages: SimpleQueue[object] = SimpleQueue()
        self.stops = 0
        self.done = False
        self.crashed = False
        self.ended: set[Service] = set()

    def stop(self) -> None:
        """Ask for an end, the second time for one at once."""
        self._messages.put(STOP)

    def tell_done(self) -> None:
        """Tell that there is nothing left to do."""
        self._messages.put(DONE)

    def call(self, function: Callable[[], None]) -> None:
        """Have something done by the thread that watches."""
        self._messages.put(function)

    def on_end(self, part: Service, error: BaseException | None) -> None:
        """Tell that a part has ended, or that a thread of it has died of `error`."""
        self._messages.put(Ended(part, error))

    def wait_for_a_reason(self) -> None:
        """Wait until there is a reason to end."""
        while not self.stops and not self.done and not self.crashed:
            self.receive(None)

    def wait_for(
        self, parts: Sequence[Service], deadline: float, *, whatever: bool = False
    ) -> bool:
        """Wait until all `parts` have ended; return whether they have.

        Not longer than to `deadline`, and only until the second stop (`whatever`: also after it).
        """
        while not self.ended.issuperset(parts):
            left = deadline - time.monotonic()
            if left <= 0 or (self.stops > 1 and not whatever):
                return False
            self.receive(left)
        return True

    def receive(self, seconds: float | None) -> None:
        """Take in one message, if one comes within `seconds`."""
        try:
            message = self._messages.get(timeout=seconds)
        except Empty:
            return
        if message is STOP:
            self.stops += 1
        elif message is DONE:
            self.done = True
        elif callable(message):
            message()
        elif isinstance(message, Ended):
            if message.error is None:
                self.ended.add(message.part)
            else:
                self.crashed = True
