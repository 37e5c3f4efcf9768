"""What a connection of the worker's own is told once, or at the start of each transaction."""

from __future__ import annotations

from django_graphile_worker.sql import loader
from django_graphile_worker.statements.base import Statement


def set_role(*, role: str) -> Statement[None]:
    """Put on a role for as long as the connection lasts."""
    return Statement("set_role", loader.query("set_role", ""), {"role": role}, lambda rows: None)


def get_backend() -> Statement[int]:
    """Tell the process number of the backend that answers."""
    return Statement(
        "get_backend", loader.query("get_backend", ""), {}, lambda rows: int(rows[0][0])
    )


def settle_session(*, local: bool) -> Statement[None]:
    """Put right what a role or a database has set in a way that our statements do not bear.

    For the rest of the transaction (`local`) or of the session.
    """
    return Statement(
        "settle_session", loader.query("settle_session", ""), {"local": local}, lambda rows: None
    )


def listen() -> Statement[None]:
    """Hear of new jobs on this connection, as long as it lasts; there are no rows to be read."""
    return Statement("listen", loader.query("listen", ""), {}, lambda rows: None)
