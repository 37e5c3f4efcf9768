"""Real workers of both kinds on one queue, in processes of their own, and what they have run."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tests import node
from tests.doors.programs import WITHIN, Program
from tests.waiting import eventually
from tests.worker.tools import Queue

PEER = Path(__file__).with_name("peer.mjs")
TASKS = {"MODULE_OF_TASKS": "tests.compatibility.fleet_tasks"}

# What a Node worker says when it is about to fetch.
READY = "looking for jobs"

# What 0.17 says of a schema that 0.18, or we, have made. It goes on.
NEWER = re.compile(r"^.*WARNING: Database is using Graphile Worker schema revision 20,.*$", re.M)

RUNS = """
create table runs (
  id serial primary key, peer text, worker text, job bigint, task text, attempt int, payload json,
  began timestamptz not null default clock_timestamp(), ended timestamptz
);
create table carried (peer text, number bigint);
"""


def package(version: str) -> Path:
    """The folder of a version of the npm package, "0.18", "0.17" or "0.16"."""
    cli = node.graphile_worker()
    assert cli is not None
    folder = cli.parents[2] / (
        "graphile-worker" if version == "0.18" else f"graphile-worker-{version}"
    )
    stated = json.loads((folder / "package.json").read_text())["version"]
    assert stated.startswith(f"{version}."), stated
    return folder / "dist"


def unhurt(*said: str) -> None:
    """No worker has complained of anything."""
    for text in said:
        told = NEWER.sub("", text).lower()
        for word in ("error", "deadlock", "warning", "traceback", "critical"):
            assert word not in told, text


def fell(peer: NodePeer | Program) -> bool:
    """Whether a Node worker has ended itself because PostgreSQL ended its batch of completions.

    Node's pool does not survive that; its issue 636 tells of it. What it had locked stays so.
    """
    if not isinstance(peer, NodePeer) or peer.process.poll() is None:
        return False
    said = peer.said()
    return "Failed to complete jobs" in said and "deadlock detected" in said


class NodePeer:
    """`peer.mjs` in a process of its own."""

    def __init__(self, dsn: str, schema: str, version: str, mode: str, argument: object) -> None:
        self._output = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            [str(node.node()), str(PEER), mode, json.dumps(argument)],
            env={
                **os.environ,
                "DATABASE_URL": dsn,
                "GRAPHILE_WORKER_INDEX": str(package(version) / "index.js"),
                "GRAPHILE_WORKER_PEER_SCHEMA": schema,
            },
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
        )

    def said(self) -> str:
        return os.pread(self._output.fileno(), 50_000_000, 0).decode()

    def wait_for(self, text: str) -> str:
        def printed() -> str:
            said = self.said()
            assert text in said, said
            assert self.process.poll() is None, said
            return said

        return eventually(printed, WITHIN)

    def stop(self) -> str:
        """End it gracefully; return what it has said."""
        self.process.send_signal(signal.SIGTERM)
        return self.end()

    def end(self) -> str:
        """Wait for its end, which must be a good one; return what it has said."""
        code = self.process.wait(WITHIN)
        said = self.said()
        # After a signal Node's program ends by that signal, though it has stopped gracefully.
        assert code in (0, -signal.SIGTERM), f"{code}: {said}"
        return said

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._output.close()


class Fleet:
    """Starts peers; knows the queue and what was run."""

    def __init__(self, queue: Queue, dsn: str, schema: str) -> None:
        self.queue = queue
        self.dsn = dsn
        self.schema = schema
        self._peers: list[NodePeer | Program] = []

    def node(self, version: str = "0.18", *, worker: Any = None, **settings: Any) -> NodePeer:
        """A Node worker; `worker` is of its preset, and `settings` is what peer.mjs knows."""
        return self.peer(version, "work", {"worker": worker or {}, **settings})

    def both(
        self, *arguments: str, version: str = "0.18", **settings: Any
    ) -> list[NodePeer | Program]:
        """One of each kind, both looking for jobs; `arguments` are ours."""
        started: list[NodePeer | Program] = [
            self.node(version, **settings),
            self.django(*arguments),
        ]
        for peer in started:
            self.ready(peer)
        return started

    def ready(self, peer: NodePeer | Program) -> None:
        """Wait until it looks for jobs."""
        peer.wait_for(READY if isinstance(peer, NodePeer) else " is ready.")

    def peer(self, version: str, mode: str, argument: object) -> NodePeer:
        peer = NodePeer(self.dsn, self.schema, version, mode, argument)
        self._peers.append(peer)
        return peer

    def call(self, *calls: list[Any], version: str = "0.18") -> list[Any]:
        """Make calls of Node's utils; returns what they return."""
        returned: list[Any] = json.loads(
            self.peer(version, "call", calls).end().strip().splitlines()[-1]
        )
        return returned

    def django(self, *arguments: str) -> Program:
        """Our worker; it may still be starting."""
        program = Program(self.dsn, self.schema, "--poll-interval", "0.1", *arguments, **TASKS)
        self._peers.append(program)
        return program

    def runs(self) -> list[dict[str, Any]]:
        return self.queue.query("select * from runs order by began, id")

    def ran(self, count: int) -> None:
        """So many runs have ended, and the queue is empty and unlocked."""

        def done() -> None:
            ended = [run for run in self.runs() if run["ended"] is not None]
            assert len(ended) >= count, (len(ended), self.queue.jobs()[:5])
            assert self.queue.jobs() == []
            assert self.queue.locks() == 0

        eventually(done, WITHIN)

    def began(self, count: int) -> list[dict[str, Any]]:
        """Wait until so many runs have begun; returns them."""

        def begun() -> list[dict[str, Any]]:
            runs = self.runs()
            assert len(runs) >= count, f"{runs} {self.said()}"
            return runs

        return eventually(begun, WITHIN)

    def said(self) -> str:
        return "\n".join(peer.said() for peer in self._peers)

    def hurry(self) -> None:
        """Make due what waits for its next attempt."""
        self.queue.query("update {jobs} set run_at = now() where locked_at is null")

    def hurry_one(self, pk: int) -> None:
        self.queue.query(
            "update {jobs} set run_at = now() where id = %s and locked_at is null", [pk]
        )

    def stop(self, peer: NodePeer | Program) -> str:
        """End one gracefully; returns what it has said."""
        if isinstance(peer, NodePeer):
            return peer.stop()
        peer.process.send_signal(signal.SIGTERM)
        code, said = peer.wait()
        assert code == 0, said
        return said

    def close(self) -> None:
        for peer in self._peers:
            peer.close()
