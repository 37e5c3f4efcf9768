"""The life cycle that all parts of the worker share.

A part may be stopped before it was started, and twice; it starts once. Its threads never die in
silence: what they did not catch is logged and told to whoever made the part. Every wait of a part
can be woken.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

logger = logging.getLogger("graphile_worker")

OnEnd = Callable[["Service", BaseException | None], None]


class Service:
    """A part of the worker with one or more threads of its own.

    `on_end(part, error)` is called in the thread that ends: with the error as soon as one of them
    dies of it, and with `None` when the last one has ended. It must not raise.
    """

    def __init__(self, name: str, *, on_end: OnEnd, threads: int = 1) -> None:
        self.name = name
        self._on_end = on_end
        self._stopping = threading.Event()
        self._woken = threading.Event()
        self._lock = threading.Lock()
        self._started = False
        self._alive = threads
        self._threads = [
            # Daemons: a task that does not end must not keep a process from ending that was told
            # to for the second time.
            threading.Thread(
                target=self._run,
                args=[number],
                name=f"graphile_worker {name}" + (f" {number + 1}" if threads > 1 else ""),
                daemon=True,
            )
            for number in range(threads)
        ]

    def work(self, number: int) -> None:
        """Do the part's work until `stopping`; runs in thread `number`, from 0."""
        raise NotImplementedError

    def start(self) -> None:
        """Start the threads; a part that was stopped before does not start any more.

        Raises `RuntimeError` the second time.
        """
        with self._lock:
            if self._started:
                raise RuntimeError(f"{self.name} was started before")
            if self.stopping:
                return
            self._started = True
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ask the part to end; returns at once."""
        with self._lock:
            self._stopping.set()
        self.wake()

    def join(self, seconds: float | None = None) -> bool:
        """Wait until all threads have ended, at most `seconds`; returns whether they have."""
        if not self._started:
            return True
        deadline = None if seconds is None else time.monotonic() + seconds
        # One that could not be started, the machine having no more, has no number.
        for thread in (thread for thread in self._threads if thread.ident is not None):
            thread.join(None if deadline is None else max(0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    @property
    def stopping(self) -> bool:
        """Whether the part was asked to end, or one of its threads has died."""
        return self._stopping.is_set()

    def wake(self) -> None:
        """End the present wait, or the next one."""
        self._woken.set()

    def wait(self, seconds: float | None) -> None:
        """Wait until woken, at most `seconds`.

        What woke it is for the caller to find out. The mark is taken away on return, so look at
        the state *after* waiting, not before.
        """
        self._woken.wait(seconds)
        self._woken.clear()

    def _run(self, number: int) -> None:
        try:
            self.work(number)
        except BaseException as error:
            logger.critical("The %s died.", self.name, exc_info=True)
            self.stop()
            self._on_end(self, error)
        finally:
            with self._lock:
                self._alive -= 1
                last = self._alive == 0
            if last:
                self._on_end(self, None)


class Moment:
    """A moment in a part's work that a test may wait for; costs nothing where nobody does."""

    def __init__(self) -> None:
        self._seen: SimpleQueue[Any] | None = None

    def watch(self) -> None:
        """Keep every occurrence from now on."""
        self._seen = SimpleQueue()

    def occur(self, value: object = None) -> None:
        """Tell that the moment has come."""
        if self._seen is not None:
            self._seen.put(value)

    def wait(self, within: float = 10) -> Any:
        """Return the value of the next occurrence. Raises `TimeoutError`."""
        if self._seen is None:
            raise RuntimeError("call watch() first")
        try:
            return self._seen.get(timeout=within)
        except Empty:
            raise TimeoutError(f"did not occur within {within} s") from None
