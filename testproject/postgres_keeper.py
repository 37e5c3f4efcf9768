"""The process that owns a temporary PostgreSQL (see ``postgres.py``, which starts it).

It reads its order from the first line of standard input, makes and starts a cluster, answers with
one line, and then waits for the end of standard input. That end comes when the other side closes
it and also when the other side is killed, so there is one way out, and every run takes it: stop
the server, remove the folder. Only the standard library is used here: it runs isolated.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Order = dict[str, Any]


class Failed(Exception):
    """Said to the other side as it is."""


class Cluster:
    """One cluster in a folder of its own."""

    def __init__(self, order: Order) -> None:
        self.bin = Path(order["bin"])
        self.home = Path(order["home"])
        self.settings: dict[str, str] = order["settings"]
        self.sync: bool = order["sync"]
        self.account = unprivileged_account()
        self.base = make_folder(self.account)
        self.data = self.base / "data"
        self.log = self.base / "log"
        self.password = secrets.token_urlsafe(16)

    def start(self) -> dict[str, str]:
        """Make the cluster and start it; returns what the other side needs to know."""
        if self.account and not self.reachable():
            self.copy_programs()
        # The port is on loopback, where every account of the machine could come in: a password,
        # since a superuser may run programs.
        secret = self.base / "password"
        secret.write_text(scram_verifier(self.password))
        self.give_away(secret)
        self.run(
            *("initdb", "-U", "postgres", "-A", "scram-sha-256", "--pwfile", str(secret)),
            *("-E", "UTF8", *([] if self.sync else ["--no-sync"])),
        )
        port = self.start_on_a_free_port()
        return {
            "url": f"postgresql://postgres:{self.password}@127.0.0.1:{port}/postgres",
            "folder": str(self.base),
            "log": str(self.log),
        }

    def start_on_a_free_port(self) -> int:
        conf = self.data / "postgresql.conf"
        given = conf.read_text()
        for attempt in range(5):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port: int = probe.getsockname()[1]
            lines = {
                "port": str(port),
                "listen_addresses": "127.0.0.1",
                "unix_socket_directories": "",
                **self.settings,
            }
            conf.write_text(given + "".join(f"{k} = '{v}'\n" for k, v in lines.items()))
            try:
                self.run("pg_ctl", "-w", "-s", "-t", "60", "-l", str(self.log), "start")
            except Failed as failure:
                said = self.log.read_text(errors="replace") if self.log.exists() else ""
                # Between the probe and the start somebody else may have taken the port.
                if "could not bind" in said and attempt < 4:
                    self.log.unlink()
                    continue
                raise Failed(f"{failure}\n{said[-4000:]}") from None
            return port
        raise AssertionError  # the last attempt returned or raised

    def end(self) -> None:
        """Stop the server, whatever state it is in, and remove every trace of it."""
        for mode in ("fast", "immediate"):
            if not (self.data / "postmaster.pid").exists():
                break
            with contextlib.suppress(Failed):
                self.run("pg_ctl", "-w", "-s", "-t", "20", "-m", mode, "stop")
        deadline = time.monotonic() + 10
        while self.base.exists() and time.monotonic() < deadline:
            # A server that was killed leaves children that write for a moment longer.
            shutil.rmtree(self.base, ignore_errors=True)
            if self.base.exists():
                time.sleep(0.05)

    def run(self, tool: str, *arguments: str) -> None:
        command = [str(self.bin / tool), "-D", str(self.data), *arguments]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
        environment |= {"LC_ALL": "C", "HOME": str(self.base)}
        # Into a file: the server inherits it, so a pipe would not end when the tool does.
        with tempfile.TemporaryFile() as said:
            ended = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env=environment,
                cwd=self.base,
                check=False,
                **self.account,
            )
            said.seek(0)
            text = said.read().decode(errors="replace").strip()
        if ended.returncode:
            raise Failed(f"{tool} ended with {ended.returncode}: {text}")

    def reachable(self) -> bool:
        """Whether the account we drop to can run the programs where they are."""
        with contextlib.suppress(OSError):
            ended = subprocess.run(
                [self.bin / "postgres", "-V"],
                cwd=self.base,
                capture_output=True,
                check=False,
                **self.account,
            )
            return ended.returncode == 0
        return False

    def copy_programs(self) -> None:
        """Bring the programs to where that account can run them, out of root's home say."""
        copies = self.base / "dist"
        for source in (self.home, self.home.with_name(f"{self.home.name}.libs")):
            if source.is_dir():  # the second holds a wheel's shared libraries
                shutil.copytree(source, copies / source.name, symlinks=True)
        self.bin = copies / self.home.name / self.bin.relative_to(self.home)
        self.give_away(copies)
        for path in copies.rglob("*"):
            self.give_away(path)

    def give_away(self, path: Path) -> None:
        if self.account:
            os.chown(path, self.account["user"], self.account["group"], follow_symlinks=False)


def scram_verifier(password: str) -> str:
    """What PostgreSQL stores for a password, with one iteration in place of 4096.

    The iterations slow down who guesses at a password that a person made up. This one is random,
    and they took six of the seven milliseconds that a test needs to open a session.
    """
    salt, iterations = secrets.token_bytes(16), 1
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    salt, stored, server = (base64.b64encode(part) for part in (salt, stored, server))
    return f"SCRAM-SHA-256${iterations}:{salt.decode()}${stored.decode()}:{server.decode()}"


def unprivileged_account() -> dict[str, Any]:
    """PostgreSQL refuses to run as root: what to give to subprocess to drop to another account."""
    if os.name != "posix" or os.geteuid() != 0:
        return {}
    import pwd

    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    raise Failed("PostgreSQL cannot run as root, and there is no account postgres or nobody")


def make_folder(account: dict[str, Any]) -> Path:
    for parent in (tempfile.gettempdir(), "/tmp", "/var/tmp"):  # noqa: S108
        base = Path(tempfile.mkdtemp(prefix="graphile-worker-pg-", dir=parent))
        if not account:
            return base
        os.chown(base, account["user"], account["group"])
        # TMPDIR may lie in a folder that only root can enter.
        if not subprocess.run(["test", "-x", base], check=False, cwd="/", **account).returncode:
            return base
        base.rmdir()
    raise Failed("no temporary folder that an account other than root can enter")


@contextlib.contextmanager
def running(order: Order) -> Iterator[dict[str, str]]:
    cluster = Cluster(order)
    try:
        yield cluster.start()
    finally:
        cluster.end()


def main() -> None:
    for name in ("SIGINT", "SIGHUP"):  # meant for the other side
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    order = json.loads(sys.stdin.readline() or "null")
    if order is None:
        return
    try:
        with running(order) as facts, contextlib.suppress(BrokenPipeError):
            print(json.dumps(facts), flush=True)
            sys.stdin.read()
    except Failed as failure:
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps({"error": str(failure)}), flush=True)
    finally:
        # The interpreter's own flush must not complain about a reader that is gone.
        with contextlib.suppress(BrokenPipeError):
            sys.stdout.close()


if __name__ == "__main__":
    main()
