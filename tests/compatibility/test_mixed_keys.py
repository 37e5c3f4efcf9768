"""Keyed requests from everywhere, run by workers of both kinds: none of them gets lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.compatibility.fleet import Fleet, unhurt
from tests.compatibility.storm import KeyedStorm, Report
from tests.storm.callers import Bulk

pytestmark = [pytest.mark.node, pytest.mark.storm]

Record = Callable[[Report], None]

# Node locks several jobs at once when it completes them so, in an order of its own.
BATCHING = {
    "concurrentJobs": 10,
    "localQueue": {"size": 20},
    "completeJobBatchDelay": 20,
    "failJobBatchDelay": 20,
}


@pytest.fixture
def seconds(request: pytest.FixtureRequest) -> float:
    return float(request.config.getoption("--fleet-seconds"))


@pytest.fixture
def record(request: pytest.FixtureRequest) -> Record:
    """Keep the figures in the JUnit report."""
    return lambda report: request.node.user_properties.append(("storm", str(report)))


def assert_busy(report: Report, *callers: str) -> None:
    """A storm in which one of these did nothing shows nothing."""
    for who in (*callers, "node calls"):
        assert report.counts[who] > 0, (who, str(report))
    assert report.carried["node"] > 0, str(report)
    assert report.carried["django"] > 0, str(report)


@pytest.mark.parametrize("version", ["0.18", "0.17"])
def test_no_request_is_lost(fleet: Fleet, version: str, seconds: float, record: Record) -> None:
    report = KeyedStorm(fleet, seconds, version=version).run()
    record(report)
    assert (report.lost, report.missing, report.errors) == (set(), [], []), str(report)
    assert report.deadlocks == [], report.deadlocks[:3]
    unhurt(*report.said.values())
    assert_busy(report, "single", "bulk", "raw", "undecided", "deduplicated")
    assert fleet.queue.conflicts() != []


@pytest.mark.parametrize("worker", [BATCHING], ids=["in batches"])
def test_no_request_is_lost_where_node_completes_in_batches(
    fleet: Fleet, worker: dict[str, Any], seconds: float, record: Record
) -> None:
    """A call of several keys may be the victim of a deadlock then; `enqueue_many` tries again."""
    report = KeyedStorm(fleet, seconds, worker=worker, slots=1, cast=(Bulk, Bulk, Bulk)).run()
    record(report)
    assert (report.lost, report.missing, report.errors) == (set(), [], []), str(report)
    assert_busy(report, "bulk")
