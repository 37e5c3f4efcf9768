"""Who is measured: this package's command, and its peers, each with its settings."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.worker.programs import Program
from benchmarks.worker.queue import Queue
from tests import node

HERE = Path(__file__).resolve().parent
MANAGE = HERE.parent / "project" / "manage.py"

NODE_DEFAULTS: Mapping[str, Any] = {}
NODE_BEST: Mapping[str, Any] = {
    "concurrentJobs": 24,
    "localQueue": {"size": 500},
    "completeJobBatchDelay": 0,
    "failJobBatchDelay": 0,
}


def manage(*arguments: str) -> list[str]:
    return [sys.executable, str(MANAGE), *arguments]


def peer(*arguments: str) -> list[str]:
    return [str(node.node()), str(HERE / "peer.mjs"), *arguments]


def peer_environment() -> dict[str, str]:
    cli = node.graphile_worker()
    assert cli is not None
    # No line for each job: the worker here writes none either.
    return {"GRAPHILE_WORKER_INDEX": str(cli.with_name("index.js")), "NO_LOG_SUCCESS": "1"}


@dataclass(frozen=True)
class Side:
    """A worker: its name and settings as shown, its queue, its task, how it is started.

    One that does not end by itself when the queue is empty (``ends``) is told to by SIGTERM.
    """

    name: str
    settings: str
    queue: Queue
    task: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    ends: bool = True

    def start(self) -> Program:
        return Program(self.command, {"DATABASE_URL": self.queue.url, **self.environment})


def ours(queue: Queue, task: str, name: str, *arguments: str, once: bool = True) -> Side:
    """The command ``graphile_worker`` with these arguments, and ``--once``."""
    arguments = ("graphile_worker", *(["--once"] if once else []), *arguments)
    return Side(
        name=name,
        settings=" ".join(arguments) + ("" if once else ", SIGTERM when the queue is empty"),
        queue=queue,
        task=task,
        command=manage(*arguments),
        environment={"DJANGO_SETTINGS_MODULE": "benchmarks.project.settings"},
        ends=once,
    )


def theirs(queue: Queue, name: str, settings: Mapping[str, Any]) -> Side:
    """The npm package's ``runOnce`` with these settings."""
    return Side(
        name=name,
        settings="runOnce, " + (_shown(settings) or "defaults (concurrency 10)"),
        queue=queue,
        task="nothing",
        command=peer("once", json.dumps(settings)),
        environment=peer_environment(),
    )


def _shown(settings: Mapping[str, Any]) -> str:
    return json.dumps(settings).replace('"', "")[1:-1]


def on_path(folder: Path) -> dict[str, str]:
    """The environment in which modules are found in a folder as well."""
    paths = [str(folder), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(path for path in paths if path)}
