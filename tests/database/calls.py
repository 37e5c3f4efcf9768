"""Calls that may have to wait, each in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import psycopg

T = TypeVar("T")
Session = psycopg.Connection[Any]

# No statement here takes a second; one that waits in vain must not hang the tests.
LONGEST = 20


class Call(Generic[T]):
    """A function that runs in a thread, since it may have to wait."""

    def __init__(self, session: Session, function: Callable[[], T]) -> None:
        self.session = session
        self.pid = session.info.backend_pid
        self._function = function
        self._outcome: list[T] = []
        self._error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, name=f"call on backend {self.pid}")
        self.thread.start()

    def _run(self) -> None:
        try:
            self._outcome.append(self._function())
        except BaseException as error:  # noqa: BLE001 - handed to whoever asks for the result
            self._error = error

    def done(self) -> bool:
        return not self.thread.is_alive()

    def result(self) -> T:
        """What the function returned or raised; a deadlock is a failed assertion."""
        self.thread.join(LONGEST + 5)
        assert self.done(), "the call has not ended"
        if isinstance(self._error, psycopg.errors.DeadlockDetected):
            raise AssertionError(f"deadlock: {self._error}") from self._error
        if self._error is not None:
            raise self._error
        return self._outcome[0]
