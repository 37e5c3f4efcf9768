"""Starts programs, and tells how long they took and what they used."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO

# Nothing that is measured takes so long.
TOO_LONG = 300.0


@dataclass(frozen=True)
class Ended:
    """How a program ended: seconds by the clock and of CPU, and its largest size in MiB.

    Both with the programs that it has started and waited for (the size: of the largest one).
    """

    wall: float
    cpu: float
    memory: float
    output: str


class Program:
    """A program that runs. Its end is noticed at once, whatever its starter does meanwhile."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command = command
        # Closed by end().
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._begun = time.perf_counter()
        self._process = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._errors,
        )
        self._status: int | None = None
        self._told = False
        self._waiter = threading.Thread(target=self._wait, daemon=True)
        self._waiter.start()

    @property
    def runs(self) -> bool:
        return self._waiter.is_alive()

    def terminate(self) -> None:
        if self.runs:
            self._told = True
            os.kill(self._process.pid, signal.SIGTERM)

    def end(self) -> Ended:
        """Wait for the end. Raises ``SystemExit`` with what it wrote, where that was not 0."""
        self._waiter.join(TOO_LONG)
        if self.runs:
            os.kill(self._process.pid, signal.SIGKILL)
            self._waiter.join()
        output, errors = (self._read(file) for file in (self._output, self._errors))
        # One that we have ended may say so.
        if self._status and not (self._told and self._status == -signal.SIGTERM):
            shown = " ".join(self._command)
            raise SystemExit(f"{shown} ended with {self._status}:\n{output}\n{errors}")
        usage = self._usage
        return Ended(
            wall=self._ended - self._begun,
            cpu=usage.ru_utime + usage.ru_stime,
            memory=usage.ru_maxrss / 1024,
            output=output,
        )

    def _wait(self) -> None:
        _, status, self._usage = os.wait4(self._process.pid, 0)
        self._ended = time.perf_counter()
        self._status = self._process.returncode = os.waitstatus_to_exitcode(status)

    @staticmethod
    def _read(file: IO[bytes]) -> str:
        with file:
            file.seek(0)
            return file.read().decode(errors="replace")
