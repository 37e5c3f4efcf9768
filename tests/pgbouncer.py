"""A real transaction pooler in front of the test database, where pgbouncer is installed."""

from __future__ import annotations

import functools
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from testproject.postgres_keeper import make_folder, unprivileged_account

# Where packages put it without putting it on everybody's PATH.
KNOWN = ("/usr/sbin/pgbouncer", "/usr/local/sbin/pgbouncer", "/opt/homebrew/bin/pgbouncer")

# Seconds that it may take to start or to end.
PATIENCE = 10.0


@functools.cache
def program() -> Path | None:
    """The program, or `None` where it is not installed."""
    for name in (shutil.which("pgbouncer"), *KNOWN):
        if name and Path(name).is_file():
            return Path(name)
    return None


def missing() -> str | None:
    """Why tests marked ``pgbouncer`` cannot run, or ``None`` when they can."""
    return None if program() is not None else "no pgbouncer found"


class Pooler:
    """pgbouncer with `size` server connections for all of its clients.

    `database` are the settings of Django's alias that it stands before.
    """

    def __init__(self, database: dict[str, Any], size: int) -> None:
        # It refuses to run as root, as PostgreSQL does.
        self.account = unprivileged_account()
        self.folder = folder = make_folder(self.account)
        self.log = folder / "log"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        server = {
            "host": database["HOST"] or "127.0.0.1",
            "port": database["PORT"] or 5432,
            "dbname": database["NAME"],
            "user": database["USER"],
            "password": database["PASSWORD"],
        }
        where = " ".join(f"{name}={value}" for name, value in server.items() if value)
        self.ini = folder / "pgbouncer.ini"
        self.ini.write_text(
            f"[databases]\n{database['NAME']} = {where}\n[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\n"
            "auth_type = any\npool_mode = transaction\nmax_client_conn = 100\n"
            f"default_pool_size = {size}\nserver_login_retry = 1\nlogfile = {self.log}\n"
        )
        self.ini.chmod(0o644)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and return once it takes connections."""
        self._process = subprocess.Popen(
            [str(program()), "-q", str(self.ini)],
            cwd=self.ini.parent,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **self.account,
        )
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    said = self.log.read_text() if self.log.exists() else "nothing"
                    raise RuntimeError(f"pgbouncer did not start; it said {said}") from None
            time.sleep(0.02)

    def stop(self) -> None:
        """End it at once, as a crash does: its clients' connections break."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE)
            self._process = None

    def end(self) -> None:
        """End it for good, and remove every trace of it."""
        self.stop()
        shutil.rmtree(self.folder)
