"""Hold a session up in the middle of a function, at a statement of it.

A trigger of the test waits for an advisory lock that the keeper has; PostgreSQL says so, and the
test goes on. Statement triggers fire also where a statement finds no row.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.database.stage import Session, Stage

PAUSED = "to be paused"


class Pause:
    """`session` is held up where the trigger fires; `keeper` is what it then waits for."""

    def __init__(self, stage: Stage) -> None:
        self.session = stage.session(application_name=PAUSED)
        self.keeper = stage.session()
        self.keeper.autocommit = True
        self.keeper.execute("select pg_advisory_lock(4711)")

    def resume(self) -> None:
        self.keeper.execute("select pg_advisory_unlock_all()")


@contextmanager
def pause(stage: Stage, table: str, event: str, level: str = "statement") -> Iterator[Pause]:
    """Hold up one session at `event` ("before insert", for instance) on a table of the queue."""
    stage.query(
        "create function {schema}.test_pause() returns trigger language plpgsql as $$"
        " begin"
        f" if current_setting('application_name') = '{PAUSED}' then"
        " perform pg_advisory_xact_lock_shared(4711);"
        " end if;"
        " return new;"
        " end $$;"
        f"create trigger test_pause {event} on {{{table}}}"
        f" for each {level} execute function {{schema}}.test_pause()"
    )
    pause = Pause(stage)
    try:
        yield pause
    finally:
        pause.resume()
        stage.end_calls()
        close(pause.session)
        stage.query("drop function {schema}.test_pause() cascade")


def close(session: Session) -> None:
    """Let go of what an assertion that failed has left locked."""
    session.close()
