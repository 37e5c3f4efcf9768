"""The worker of the demo: ``manage.py graphile_worker`` in a process of its own."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import IO

# Seconds. More than the leash grants, so that its own end comes first.
PATIENCE = 20.0

# What is shown of the worker's log when it is in trouble.
LINES = 20


class Worker:
    """A running worker. It ends with this process, however that ends."""

    def __init__(self, process: subprocess.Popen[bytes], log: IO[bytes]) -> None:
        self._process = process
        self._log = log
        self.pid = process.pid

    def wait(self, seconds: float) -> int | None:
        """Return the exit code as soon as the worker ends; ``None`` after ``seconds``."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def stop(self) -> int:
        """Let running jobs end, and return the exit code."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            return self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()
        except BaseException:  # Ctrl-C for the second time
            self._process.kill()
            self._process.wait()
            raise

    def kill(self) -> None:
        """End it as a crash would: it leaves everything as it stands."""
        self._process.kill()
        self._process.wait()

    def said(self) -> str:
        """The last lines that the worker has printed."""
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return "\n".join(f"  {line}" for line in lines[-LINES:])


@contextlib.contextmanager
def running(concurrency: int) -> Iterator[Worker]:
    """Start a worker; at the end it is stopped, if it was not before."""
    # A file and not a pipe: nobody reads it before the end.
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "testproject.demo.leash"),
                *("graphile_worker", "--concurrency", str(concurrency)),
            ],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C is for the demo, which then stops the worker
        )
        worker = Worker(process, log)
        try:
            yield worker
        finally:
            worker.stop()
