"""Worker processes are killed at random; `python -m tests.storm.kills` does it a hundred times."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.storm.killing import Kills


@pytest.mark.storm
def test_what_killed_processes_had_runs_again(
    dsn: str, schema: str, record_property: Callable[[str, object], None]
) -> None:
    times = int(os.environ.get("DGW_KILLS", "10"))
    report = Kills(
        address=dsn,
        schema=schema,
        times=times,
        processes=3,
        flags=("--heartbeat", "0.5", "--stale-after", "3"),
    ).run()
    record_property("kills", str(report))

    assert report.faults == [], str(report)
    assert report.kills == times
    # Without these it would have shown nothing.
    assert report.interrupted > 0, str(report)
    assert report.seconds, str(report)
