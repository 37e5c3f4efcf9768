"""How a worker process and the one that started it talk: a line each way, over one socket.

The child tells the name that it locks jobs under; the parent tells how often it was asked to stop.
When the parent is gone, however that came, the child's end of the socket says so.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator

logger = logging.getLogger("graphile_worker")

# Holds the number of the inherited socket.
VARIABLE = "GRAPHILE_WORKER_PARENT"

# `socket.socketpair` can be handed to a child by number there, and only there.
SUPPORTED = os.name == "posix"


class Channel:
    """One end of the socket. What is sent to someone who is gone is lost, and nobody is told."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    def send(self, word: str, value: object) -> None:
        """Send a line such as `stop 2`. Any thread may call this, but one at a time."""
        with contextlib.suppress(OSError):
            self._end.sendall(f"{word} {value}\n".encode())

    def received(self) -> Iterator[tuple[str, str]]:
        """Yield what comes, word and value, until the other side is gone."""
        with contextlib.suppress(OSError), self._end.makefile("r", encoding="utf-8") as lines:
            for line in lines:
                word, _, value = line.rstrip("\n").partition(" ")
                yield word, value

    def close(self) -> None:
        """Close this end."""
        with contextlib.suppress(OSError):
            self._end.shutdown(socket.SHUT_RDWR)
        self._end.close()


class Parent(Channel):
    """The process that started this one, as this one sees it."""

    @classmethod
    def find(cls) -> Parent | None:
        """Return the parent, or `None` where this process was started by somebody else.

        The first call finds it, and no later one: what this process starts is not its parent's.
        """
        given = os.environ.pop(VARIABLE, "")
        try:
            end = socket.socket(fileno=int(given))
        except (ValueError, OSError):
            return None
        end.set_inheritable(False)
        return cls(end)

    def tell_name(self, worker_id: str) -> None:
        """Tell the name under which jobs are locked from now on."""
        self.send("name", worker_id)

    def watch(self, ask_to_stop: Callable[[int], None]) -> None:
        """From now on pass on how often the parent was asked to stop; its death counts once."""
        threading.Thread(
            target=self._watch, args=[ask_to_stop], name="graphile_worker parent", daemon=True
        ).start()

    def _watch(self, ask_to_stop: Callable[[int], None]) -> None:
        for word, value in self.received():
            if word == "stop":
                ask_to_stop(int(value))
        logger.warning("The process that started this worker is gone; the worker stops.")
        ask_to_stop(1)
