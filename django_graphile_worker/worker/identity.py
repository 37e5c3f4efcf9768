"""The name under which a worker locks jobs; a new one at every start, and after its death.

With a name that comes back, a worker could end the jobs of its dead namesake, and its heartbeat
would make them look alive.
"""

from __future__ import annotations

import os
import re
import secrets
import socket

# Locks of our workers are told from those of other languages by this.
PREFIX = "django:"


def new_worker_id() -> str:
    """Return a new owner of locks: the fixed prefix, host, process and a random part.

    At most 100 characters.
    """
    host = re.sub(r"[^\w.-]", "_", socket.gethostname())[:60]
    return f"{PREFIX}{host}:{os.getpid()}:{secrets.token_hex(6)}"


class Identity:
    """A pool's present name, shared by its parts.

    `worker_id` is `None` until its row in `django_workers` is written, and again from the moment
    when the pool learns that it was declared dead until it has registered anew: nothing may be
    fetched then. Each job carries the name under which it was taken.
    """

    def __init__(self) -> None:
        self.worker_id: str | None = None
