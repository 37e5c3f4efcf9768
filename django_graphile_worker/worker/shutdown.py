"""SIGTERM and SIGINT: the first asks the worker to stop, the second to stop at once."""

from __future__ import annotations

import itertools
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

logger = logging.getLogger("graphile_worker")

# SIGHUP comes when a terminal is closed, unless nohup has it ignored. SIGBREAK is Windows'
# Ctrl-Break, which has no SIGTERM from outside.
NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")


class Stops:
    """Calls `stop` once for each time that the worker is asked to stop, up to `levels` times.

    Several may ask for one and the same stop: Ctrl-C reaches a process and its parent, which passes
    it on; a service manager signals each process of a unit. So each of those who ask says how often
    it has asked, and the highest number counts.
    """

    def __init__(self, stop: Callable[[], None], levels: int = 2) -> None:
        self._stop = stop
        self._signals = itertools.count(1)
        # No lock: a signal handler could wait for its own thread. To take a key out is atomic.
        self._untold = dict.fromkeys(range(1, levels + 1), True)
        self._asked = self._changed = False

    def ask(self, times: int = 1) -> None:
        """Say that somebody has now asked `times` times. Any thread may call this."""
        self._asked = True
        self._tell(times)

    def ask_to_restart(self) -> None:
        """Say that the program has changed. Who then asks to stop asks for the first time."""
        self._changed = True
        self._tell(1)

    @property
    def restart(self) -> bool:
        """Whether the worker stopped only to be started again."""
        return self._changed and not self._asked

    def _tell(self, times: int) -> None:
        for level in range(1, times + 1):
            if self._untold.pop(level, False):
                self._stop()

    def signalled(self) -> None:
        """Count a signal; for `on_signal`."""
        self.ask(next(self._signals))


@contextmanager
def on_signal(stop: Callable[[], None]) -> Iterator[bool]:
    """Call `stop` for each signal that arrives, and put the former handlers back at the end.

    Only the main thread can set handlers; in another one (a test's, a server's) nothing is set.
    Yields whether handlers were set. `stop` runs between any two instructions of the main thread,
    so it must not take a lock that this thread may hold.
    """
    if threading.current_thread() is not threading.main_thread():
        yield False
        return

    def handle(number: int, frame: FrameType | None) -> None:
        stop()

    former: dict[int, Any] = {}
    try:
        for name in NAMES:
            if (number := getattr(signal, name, None)) is None:
                continue
            if name == "SIGHUP" and signal.getsignal(number) is signal.SIG_IGN:
                continue
            try:
                former[number] = signal.signal(number, handle)
            except (ValueError, OSError) as error:
                # Not every system lets every signal be handled; the others still stop the worker.
                logger.warning("%s cannot be handled here (%s).", name, error)
        yield True
    finally:
        for number, handler in former.items():
            # None: it was not set from Python and cannot be put back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
