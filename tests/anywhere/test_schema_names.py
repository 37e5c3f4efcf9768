"""Any name that PostgreSQL takes for a schema holds a queue."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.fresh import ROOT, Fresh

NAMES = {
    "a reserved word": "select",
    "capitals, spaces and dots": " 2 Words. and a dot ",
    "quotes": '"it\'s"" \\ `quoted`"',
    "63 bytes of UTF-8": "schöne Schlange " + "ü" * 22 + "é",
    "what other languages read": "{}:SCHEMA -- /* ; ?<b>&amp;",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_everything_works_under_the_name(fresh: Fresh, name: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.anywhere.names_program"],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": fresh.url, "GRAPHILE_WORKER_SCHEMA": name},
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "ALL WELL" in ran.stdout
    assert fresh.schemas() == set()
