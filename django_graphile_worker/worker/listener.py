"""Begins to listen for new jobs, and again after every loss."""

from __future__ import annotations

import logging
from collections.abc import Callable

from django_graphile_worker.statements import sessions as statements
from django_graphile_worker.worker.connections import PASSING, Connection, Link
from django_graphile_worker.worker.service import Moment, OnEnd, Service

logger = logging.getLogger("graphile_worker")


class Listener(Service):
    """Opens a connection that listens, and hands it to whoever waits for announcements.

    `on_listening(connection)` gives it away: from then on only the receiver uses it, who must take
    it also as an announcement, since what was announced before was not heard. `lost()` tells that
    it has broken; the listener then closes it and makes another.
    """

    def __init__(
        self, *, link: Link, on_listening: Callable[[Connection], None], on_end: OnEnd
    ) -> None:
        super().__init__("listener", on_end=on_end)
        self._link = link
        self._on_listening = on_listening
        self._lost = False
        self._warned = False
        self.listening = Moment()

    def lost(self) -> None:
        """Tell that the connection has broken and is not used any more."""
        self._lost = True
        self.wake()

    def work(self, number: int) -> None:
        try:
            while not self.stopping:
                try:
                    self._link.send(statements.listen())
                except PASSING as error:
                    self.wait(self._link.pause(error))
                    continue
                self._lost = False
                self._warn_of_pooler()
                self._on_listening(self._link.connection())
                self.listening.occur()
                while not self._lost and not self.stopping:
                    self.wait(None)
                if self._lost:
                    self._link.close()
        finally:
            # The receiver has given it back before: the pool stops it first.
            self._link.close()

    def _warn_of_pooler(self) -> None:
        """Say that announcements get lost in a transaction pooler; it gives no sign of it."""
        if not self._link.direct and not self._warned:
            self._warned = True
            logger.warning(
                "The database alias %r leads through a pooler, where announcements of new jobs "
                "may get lost: they are found by polling. Set LISTEN_DATABASE to an alias that "
                "goes past it, or to None (--no-listen).",
                self._link.alias,
            )
