"""The command in processes of its own, and what tests wait for there."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from psycopg import sql

from tests.waiting import eventually
from tests.worker.tools import Queue

# Generous: a process starts in a second, but not on a machine that is busy with other tests.
WITHIN = 60
ROOT = Path(__file__).resolve().parents[2]
PROGRAM = [sys.executable, "-W", "error", "-m", "tests.doors.worker_program"]


class Program:
    """The command in a process of its own, with others that it may start."""

    def __init__(self, dsn: str, schema: str, *arguments: str, **environment: str) -> None:
        # A file and not a pipe: it can be read at any time, and a child that is left behind does
        # not keep it open for us.
        self._output = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            [*PROGRAM, "graphile_worker", *arguments],
            cwd=ROOT,
            env={
                **os.environ,
                "DATABASE_URL": dsn,
                "GRAPHILE_WORKER_SCHEMA": schema,
                "PYTHONDEVMODE": "1",
                **environment,
            },
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a group that a test can signal as a terminal does
        )

    def said(self) -> str:
        """Return what it and its children have printed so far."""
        # Read through a position of our own: the processes write at the shared one.
        return os.pread(self._output.fileno(), 10_000_000, 0).decode()

    def wait_for(self, text: str) -> str:
        """Wait until it has printed `text`; return all that it has printed."""

        def printed() -> str:
            said = self.said()
            assert text in said, said
            return said

        return eventually(printed, WITHIN)

    def wait(self) -> tuple[int, str]:
        """Wait for its end; return the exit code and what it has printed."""
        return self.process.wait(WITHIN), self.said()

    def close(self) -> None:
        """Kill it; its children see that and stop."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._output.close()


Start = Callable[..., Program]


@pytest.fixture
def start(dsn: str, schema: str) -> Iterator[Start]:
    programs: list[Program] = []

    def start(*arguments: str, **environment: str) -> Program:
        programs.append(Program(dsn, schema, *arguments, **environment))
        return programs[-1]

    yield start
    for program in programs:
        program.close()


def has_begun(queue: Queue, number: int, *, granted: bool) -> Callable[[], None]:
    """A job's task waits for an advisory lock, or holds it: a locked row could still be unbegun."""

    def begun() -> None:
        assert queue.query(
            "select pid from pg_locks where locktype = 'advisory' and objid = %s and granted = %s"
            " and database = (select oid from pg_database where datname = current_database())",
            [number, granted],
        )

    return begun


def no_backends(queue: Queue, part: str) -> None:
    assert queue.backends(part) == []


def has_backends(queue: Queue, part: str) -> None:
    assert queue.backends(part) != []


def workers(queue: Queue) -> dict[str, int]:
    """The workers that live, by name, with their processes."""
    # Those that tests speak for themselves as have the process 1.
    rows = queue.session.execute(
        sql.SQL("select worker_id, pid from {} where dead_at is null and pid > 1").format(
            queue.name("django_workers")
        )
    ).fetchall()
    return dict(rows)


def has_workers(queue: Queue, count: int) -> Callable[[], dict[str, int]]:
    """There are so many workers that live; returns them as `workers` does."""

    def live() -> dict[str, int]:
        found = workers(queue)
        assert len(found) == count, found
        return found

    return live


def is_gone(pid: int) -> None:
    """The process has ended; one whose parent is dead may stay a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return
    assert state == "Z", f"process {pid} is in state {state}"
