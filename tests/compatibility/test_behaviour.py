"""The same calls give the same rows on our schema and on Graphile Worker's own.

What differs and is meant to is in `MEANT`, by the name of its case; there it has to differ.
"""

from __future__ import annotations

import pytest

from tests.compatibility.cases import CASES
from tests.compatibility.conftest import Sessions
from tests.compatibility.scripts import Script, first_difference

pytestmark = pytest.mark.node

MEANT = {
    "a key twice in one call": "as if added one after the other; theirs raises 21000",
    "unknown mode without key": "refused in any case; theirs looks only where there is a key",
}


@pytest.mark.parametrize("name", CASES)
def test_both_do_the_same(sessions: Sessions, name: str) -> None:
    ours, theirs = (Script(session) for session in sessions)
    for script in (ours, theirs):
        CASES[name](script)
        assert script.told
    difference = first_difference(ours.told, theirs.told)
    if name in MEANT:
        assert difference is not None, "this is no difference any more"
    else:
        assert difference is None, difference


def test_what_is_meant_to_differ_has_a_case() -> None:
    assert set(MEANT) <= set(CASES)
    assert len(CASES) > 100
