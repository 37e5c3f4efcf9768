"""SIGTERM and SIGINT: the first asks the worker to stop, the second to stop at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

# SIGBREAK is Windows' Ctrl-Break, which has no SIGTERM from outside.
NAMES = ("SIGINT", "SIGTERM", "SIGBREAK")


@contextmanager
def on_signal(stop: Callable[[], None]) -> Iterator[bool]:
    """Call `stop` for each signal that arrives, and put the former handlers back at the end.

    Only the main thread can set handlers; in another one (the autoreloader's, a test's) nothing is
    set. Yields whether handlers were set. `stop` runs between any two instructions of the main
    thread, so it must not take a lock that this thread may hold.
    """
    if threading.current_thread() is not threading.main_thread():
        yield False
        return

    def handle(number: int, frame: FrameType | None) -> None:
        stop()

    former: dict[int, Any] = {}
    try:
        for name in NAMES:
            if (number := getattr(signal, name, None)) is not None:
                former[number] = signal.signal(number, handle)
        yield True
    finally:
        for number, handler in former.items():
            # None: it was not set from Python and cannot be put back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
