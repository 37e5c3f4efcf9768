"""A worker process as its parent sees it."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Sequence
from queue import SimpleQueue
from typing import NamedTuple

from django.utils.autoreload import DJANGO_AUTORELOAD_ENV

from django_graphile_worker.worker.parent import VARIABLE, Channel

# Seconds in which the last line of a process that has ended is read.
LAST_LINE = 1.0


class Named(NamedTuple):
    """A process has told the name that it locks jobs under."""

    child: Child
    worker_id: str


class Ended(NamedTuple):
    """A process has ended; a negative code is the signal that killed it."""

    child: Child
    code: int


class Child:
    """A worker process; tells `messages` its name and its end, from threads of its own.

    It is started at once. Raises `OSError` where that cannot be.
    """

    def __init__(
        self,
        command: Sequence[str],
        messages: SimpleQueue[object],
        *,
        reload: bool,
        own_group: bool,
    ) -> None:
        ours, theirs = socket.socketpair()
        self.channel = Channel(ours)
        try:
            with theirs:
                self.process = self._start(command, theirs, reload=reload, own_group=own_group)
        except BaseException:
            self.channel.close()
            raise
        self.named_at: float | None = None
        self.worker_id: str | None = None
        self._messages = messages
        # Both are needed: what a task has started may hold the socket open after the child's end.
        self._listener = threading.Thread(
            target=self._listen, name="graphile_worker child", daemon=True
        )
        self._listener.start()
        threading.Thread(target=self._wait, name="graphile_worker child", daemon=True).start()

    @staticmethod
    def _start(
        command: Sequence[str], end: socket.socket, *, reload: bool, own_group: bool
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            env={
                **os.environ,
                VARIABLE: str(end.fileno()),
                # Apps look at it so as not to begin twice what only the real process should do.
                **({DJANGO_AUTORELOAD_ENV: "true"} if reload else {}),
            },
            pass_fds=[end.fileno()],
            # A debugger in a task needs the terminal. Several processes cannot share it; those
            # get Ctrl-C from us alone, so that it does not hit them while they start.
            stdin=subprocess.DEVNULL if own_group else None,
            process_group=0 if own_group else None,
        )

    def _listen(self) -> None:
        for word, value in self.channel.received():
            if word == "name":
                self._messages.put(Named(self, value))

    def _wait(self) -> None:
        code = self.process.wait()
        # Its name comes first, if it has told one.
        self._listener.join(LAST_LINE)
        self._messages.put(Ended(self, code))
