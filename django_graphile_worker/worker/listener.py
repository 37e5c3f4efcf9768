"""Hears of new jobs and wakes the fetcher."""

from __future__ import annotations

import contextlib
import selectors
import socket
from collections.abc import Callable

from django_graphile_worker.statements import worker as statements
from django_graphile_worker.worker.connections import PASSING, Link
from django_graphile_worker.worker.service import Moment, OnEnd, Service


class Listener(Service):
    """Listens on a connection of its own and calls `on_new_jobs`.

    It calls it also each time it begins to listen: what was announced before was not heard.
    """

    def __init__(self, *, link: Link, on_new_jobs: Callable[[], None], on_end: OnEnd) -> None:
        super().__init__("listener", on_end=on_end)
        self._link = link
        self._on_new_jobs = on_new_jobs
        self._ringer: socket.socket | None = None
        self.listening = Moment()

    def work(self, number: int) -> None:
        # A wait on a socket can only be woken through another one.
        bell, ringer = socket.socketpair()
        bell.setblocking(False)
        ringer.setblocking(False)
        with self._lock:
            self._ringer = ringer
        try:
            while not self.stopping:
                try:
                    self._listen(bell)
                except PASSING as error:
                    self.wait(self._link.pause(error))
        finally:
            with self._lock:
                self._ringer = None
            ringer.close()
            bell.close()
            self._link.close()

    def wake(self) -> None:
        super().wake()
        with self._lock:
            if self._ringer is not None:
                with contextlib.suppress(BlockingIOError):  # full: it rings already
                    self._ringer.send(b"!")

    def _listen(self, bell: socket.socket) -> None:
        self._link.send(statements.listen())
        connection = self._link.connection()
        with selectors.DefaultSelector() as selector:
            selector.register(connection, selectors.EVENT_READ)
            selector.register(bell, selectors.EVENT_READ)
            self._on_new_jobs()
            self.listening.occur()
            while not self.stopping:
                selector.select()
                with contextlib.suppress(BlockingIOError):
                    bell.recv(1024)
                if list(connection.notifies(timeout=0)):
                    self._on_new_jobs()
