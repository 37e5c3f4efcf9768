"""What else the machine does meanwhile: ratios on a busy machine are worth less."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path

PROC = Path("/proc")
TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def processor() -> str:
    """The processor's name and how many of its cores there are."""
    name = platform.processor() or platform.machine()
    try:
        for line in (PROC / "cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    except OSError:
        pass
    return f"{name}, {os.cpu_count()} cores"


def load() -> float | None:
    """The load average of the last minute, this program's own load included."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def cpu(backend: int) -> float | None:
    """Seconds of CPU used so far by this process and by one of the server's, where it is local."""
    try:
        (nanoseconds, *_) = (PROC / str(backend) / "schedstat").read_text().split()
    except (OSError, ValueError):
        return None
    return time.process_time() + int(nanoseconds) / 1e9


class Watch:
    """Measures the CPU that others use: not this process and those it has waited for, not the
    PostgreSQL it talks to.

    ``backend`` is the process id of a session; its parent is the server. Where the server runs
    elsewhere, or /proc is missing, nothing is known and ``others()`` returns ``None``.
    """

    def __init__(self, backend: int) -> None:
        self._server = self._parent(backend)
        self.start()

    def start(self) -> None:
        self._begun = time.monotonic()
        self._before = self._foreign()

    def others(self) -> float | None:
        """Cores that others kept busy since ``start``, on average."""
        elapsed = time.monotonic() - self._begun
        after = self._foreign()
        if self._before is None or after is None or elapsed <= 0:
            return None
        return max(0.0, (after - self._before) / TICKS / elapsed)

    def _foreign(self) -> int | None:
        if self._server is None:
            return None
        try:
            # user, nice, system, irq, softirq, steal: all but idle and waiting for a disk.
            fields = [int(n) for n in (PROC / "stat").read_text().split("\n", 1)[0].split()[1:9]]
            busy = sum(fields) - fields[3] - fields[4]
            return busy - sum(self._ours().values())
        except (OSError, ValueError, IndexError):
            return None

    def server(self) -> float | None:
        """Seconds of CPU that the server has used so far, with all its processes."""
        if self._server is None:
            return None
        return sum(used for pid, used in self._ours().items() if pid != os.getpid()) / TICKS

    def _ours(self) -> dict[int, int]:
        own, found = os.getpid(), {}
        for folder in PROC.iterdir():
            if not folder.name.isdigit():
                continue
            stat = self._stat(int(folder.name))
            if stat is None:
                continue
            used = int(stat[11]) + int(stat[12])
            if int(folder.name) in (self._server, own):
                # With their children that ended.
                found[int(folder.name)] = used + int(stat[13]) + int(stat[14])
            elif int(stat[1]) == self._server:
                found[int(folder.name)] = used
        return found

    @classmethod
    def _parent(cls, backend: int) -> int | None:
        try:
            if (PROC / str(backend) / "comm").read_text().strip() != "postgres":
                return None
        except OSError:
            return None
        stat = cls._stat(backend)
        return int(stat[1]) if stat else None

    @staticmethod
    def _stat(process: int) -> list[str] | None:
        """The fields of /proc/<process>/stat from the state on."""
        try:
            return (PROC / str(process) / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
