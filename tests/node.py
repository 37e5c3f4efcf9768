"""Finds what the tests marked ``node`` and ``browser`` need on this machine."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# graphile-worker 0.18 asks for 22.18; it was seen to run on 20 as well.
OLDEST_NODE = 20


def folders() -> list[Path]:
    """Where ``node_modules`` may lie, first match wins."""
    asked = os.environ.get("GRAPHILE_WORKER_NODE")
    return [Path(asked)] if asked else [ROOT, ROOT / "tests" / "compatibility"]


@functools.cache
def graphile_worker() -> Path | None:
    """The command-line program of the npm package, to be run with ``node()``."""
    for folder in folders():
        cli = folder / "node_modules" / "graphile-worker" / "dist" / "cli.js"
        if cli.is_file():
            return cli
    return None


@functools.cache
def node() -> Path | None:
    """A Node.js that is new enough: the npm package ``node``, else the one on PATH."""
    candidates = [folder / "node_modules" / "node" / "bin" / "node" for folder in folders()]
    if found := shutil.which("node"):
        candidates.append(Path(found))
    for candidate in candidates:
        version = version_of(candidate)
        if version and int(version.partition(".")[0]) >= OLDEST_NODE:
            return candidate
    return None


def version_of(program: Path) -> str | None:
    try:
        said = subprocess.run(
            [program, "--version"], capture_output=True, text=True, check=True, timeout=30
        )
    except (OSError, subprocess.SubprocessError):
        return None
    version = re.search(r"\d+\.\d+\.\d+", said.stdout)
    return version[0] if version else None


def missing() -> str | None:
    """Why tests marked ``node`` cannot run, or ``None`` when they can."""
    if node() is None:
        return f"no Node.js {OLDEST_NODE} or later found"
    # The others are 0.17 and 0.16, under names of their own.
    cli = graphile_worker()
    if cli is None or not all(
        (cli.parents[2] / f"graphile-worker-{version}").is_dir() for version in ("0.17", "0.16")
    ):
        return (
            "the npm package graphile-worker is not installed (npm install in tests/compatibility)"
        )
    return None


@functools.cache
def chromium() -> Path | None:
    """A Chromium for the tests marked ``browser``."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return Path(found)
    return None


@functools.cache
def axe_core() -> Path | None:
    """The script of the npm package axe-core, which finds what keeps people out of a page."""
    for folder in folders():
        script = folder / "node_modules" / "axe-core" / "axe.min.js"
        if script.is_file():
            return script
    return None


def browser_missing() -> str | None:
    """Why tests marked ``browser`` cannot run, or ``None`` when they can."""
    if chromium() is None:
        return "no Chromium found"
    if importlib.util.find_spec("playwright") is None:
        return "the Python package playwright is not installed (pip install --group browser)"
    if axe_core() is None:
        return "the npm package axe-core is not installed (npm install in tests/compatibility)"
    return None
