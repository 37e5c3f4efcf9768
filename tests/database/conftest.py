"""Fixtures: a stage with an empty queue."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import Connect
from tests.database.stage import Stage
from tests.database.ways import FEW, Way


@pytest.fixture
def stage(connect: Connect, schema: str) -> Iterator[Stage]:
    stage = Stage(connect, schema)
    yield stage
    stage.close()


@pytest.fixture(params=FEW, ids=str)
def way(request: pytest.FixtureRequest) -> Way:
    way: Way = request.param
    return way
