"""Everybody at once, for some seconds: what no forced interleaving has thought of."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest

from testproject import uncorrected
from tests.conftest import Connect
from tests.storm.storm import Storm

Record = Callable[[Storm], None]

BESIDE = "beside the storm"

# Long enough for the fault's shape to lose something, time after time.
ENOUGH = 5.0

pytestmark = pytest.mark.storm


@pytest.fixture
def seconds(request: pytest.FixtureRequest) -> float:
    return float(request.config.getoption("--storm-seconds"))


@pytest.fixture
def record(request: pytest.FixtureRequest) -> Record:
    """Keep the figures in the JUnit report."""
    return lambda storm: request.node.user_properties.append(("storm", str(storm)))


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Every job that fails and every connection that is cut is logged: thousands of lines."""
    loggers = [logging.getLogger(name) for name in ("graphile_worker", "psycopg")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


def test_no_request_is_lost(
    transactional_db: None, schema: str, seconds: float, record: Record
) -> None:
    storm = Storm(schema=schema, functions=schema, seconds=seconds).run()
    record(storm)
    assert storm.faults == {}, str(storm)
    counts = storm.ledger.counts
    # A storm in which one of these did not happen shows nothing.
    for what in (
        *("single", "bulk", "raw", "undecided", "isolated", "remover", "operator", "collector"),
        *("deduplicated", "rolled back", "removed", "complete_jobs", "permanently_fail_jobs"),
        *("supersedings", "completed", "failed", "returned", "pool runs", "deaths"),
    ):
        assert counts[what] > 0, f"no {what}. {storm}"


@pytest.mark.parametrize("variant", uncorrected.VARIANTS)
def test_it_sees_what_the_faults_shape_loses(
    variant: str, connect: Connect, schema: str, seconds: float, record: Record
) -> None:
    installer = connect()
    uncorrected.install(installer, schema, variant, BESIDE)
    try:
        storm = Storm(schema=schema, functions=BESIDE, seconds=min(seconds, ENOUGH)).run()
    finally:
        uncorrected.uninstall(installer, BESIDE)
    record(storm)
    assert storm.faults["lost"] > 0, str(storm)
    if variant == "no_row":
        assert storm.faults["missing"] > 0, str(storm)


def test_a_fault_ends_it_at_once_and_nothing_is_left(transactional_db: None, schema: str) -> None:
    storm = Storm(schema=schema, functions="nowhere", seconds=3600).run()
    assert storm.faults["error"] > 0, str(storm)
    assert storm.faults["stuck"] == 0, str(storm)
