"""Fixtures: a stage with an empty queue."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import Connect
from tests.database.sessions import Sessions
from tests.database.stage import Stage
from tests.database.ways import FEW, Way

SHARED = pytest.StashKey[Sessions]()


@pytest.fixture(scope="session")
def shared(request: pytest.FixtureRequest, django_db_setup: None) -> Iterator[Sessions]:
    shared = Sessions()
    request.config.stash[SHARED] = shared
    shared.fill()
    yield shared
    shared.close()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if SHARED in item.config.stash and "shared" in getattr(item, "fixturenames", ()):
        item.config.stash[SHARED].fill()


@pytest.fixture
def stage(connect: Connect, schema: str, shared: Sessions) -> Iterator[Stage]:
    stage = Stage(connect, schema, shared)
    yield stage
    stage.close()


@pytest.fixture(params=FEW, ids=str)
def way(request: pytest.FixtureRequest) -> Way:
    way: Way = request.param
    return way
