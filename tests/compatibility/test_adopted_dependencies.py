"""On an adopted schema, too, each of upstream's objects can be dropped without CASCADE."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compatibility.adopting import make
from tests.fresh import SCHEMA, Fresh
from tests.migrations.test_dependencies import attempt, droppable, published_functions

pytestmark = pytest.mark.node


def held(fresh: Fresh) -> dict[str, str]:
    """What cannot be dropped once upstream's functions and view are gone, and what holds it."""
    session = fresh.connect()
    first = [f"drop function {name}" for name in published_functions(session)]
    view = f"drop view {SCHEMA}.jobs"
    objects = [statement for statement in droppable(session) if statement != view]
    assert len(objects) > 50
    tried = {statement: attempt(session, [*first, view, statement]) for statement in objects}
    return {statement: detail for statement, detail in tried.items() if detail is not None}


@pytest.mark.parametrize("origin", ["0.16", "0.17", "0.18"])
def test_nothing_of_ours_holds_what_another_made(fresh: Fresh, origin: str, tmp_path: Path) -> None:
    make(fresh, origin, tmp_path)
    before = held(fresh)
    fresh.migrate()
    after = held(fresh)
    # What holds up something now has done so before, and is theirs: their generated columns.
    assert after == before
    assert all("is_available" in detail for detail in before.values())
    assert len(fresh.rows("django_installation")) == 1
