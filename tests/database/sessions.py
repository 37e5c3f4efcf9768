"""Sessions that several tests use in turn.

To log in and to compile the functions anew is what a session costs, and most of what a small test
of two sessions took. They are opened between tests: one that is opened within a test, and left, is
what the guard looks for.
"""

from __future__ import annotations

import contextlib

import psycopg
from psycopg.pq import TransactionStatus

from tests import guards
from tests.database.calls import LONGEST, Session

SIZE = 6


class Sessions:
    """A few sessions with nothing changed about them, and one observer in autocommit."""

    def __init__(self) -> None:
        self.idle: list[Session] = []
        self.observers: list[Session] = []
        self.all: list[Session] = []

    def fill(self) -> None:
        """Open what is missing; between tests."""
        for idle, size, options in (
            (self.idle, SIZE, f"-c statement_timeout={LONGEST}s"),
            (self.observers, 1, ""),
        ):
            idle[:] = [session for session in idle if self.is_sound(session)]
            while len(idle) < size:
                # No prepared statements: the tables may be others tomorrow.
                session = psycopg.connect(
                    guards.address(),
                    autocommit=True,
                    options=options,
                    application_name="shared by tests",
                    prepare_threshold=None,
                )
                idle.append(session)
                self.all.append(session)

    def is_sound(self, session: Session) -> bool:
        """Whether it is as it was when it was opened, or could be made so."""
        with contextlib.suppress(psycopg.Error):
            if session.info.transaction_status != TransactionStatus.IDLE:
                session.rollback()
            session.autocommit = True
            session.isolation_level = None
            session.execute("reset all")
            session.execute("select pg_advisory_unlock_all()")
            return True
        session.close()
        return False

    def close(self) -> None:
        for session in self.all:
            session.close()
