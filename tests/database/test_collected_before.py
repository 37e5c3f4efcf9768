"""A name is collected after a transaction's snapshot was taken: there it still seems to be.

Under REPEATABLE READ and SERIALIZABLE a look at the names tells nothing, then. A job that belongs
to no task would be stored in silence, and nobody would ever run it.
"""

from __future__ import annotations

import psycopg
import pytest
from psycopg import IsolationLevel

from tests.database.stage import Stage
from tests.database.test_collected_names import ALL, assert_unharmed, collect, make_names
from tests.database.ways import WAYS, Way

LEVELS = [IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE]


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
@pytest.mark.parametrize("made_anew", [False, True], ids=["gone", "made anew"])
@pytest.mark.parametrize("names", [["tasks"], ["queues"]], ids="-".join)
@pytest.mark.parametrize("way", ALL, ids=str)
def test_it_raises_40001(
    stage: Stage, way: Way, names: list[str], made_anew: bool, level: IsolationLevel
) -> None:
    make_names(stage)
    caller = stage.session(level)
    caller.execute("select 1")
    collect(stage, names)
    if made_anew:
        make_names(stage)
    with pytest.raises(psycopg.errors.SerializationFailure):
        way.request(stage, caller, "k", 2, queue_name="lane")
    caller.rollback()
    row = way.request(stage, caller, "k", 2, queue_name="lane")
    caller.commit()
    assert_unharmed(stage, row)


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
def test_a_single_job_without_a_key_is_no_exception(stage: Stage, level: IsolationLevel) -> None:
    make_names(stage)
    caller = stage.session(level)
    caller.execute("select 1")
    collect(stage, ["tasks"])
    with pytest.raises(psycopg.errors.SerializationFailure):
        stage.add_job(caller, payload=[2])


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_names_that_are_there_cost_no_identity_value(
    stage: Stage, way: Way, level: IsolationLevel
) -> None:
    make_names(stage)
    caller = stage.session(level)
    before = last_values(stage)
    for number in range(3):
        way.request(stage, caller, "k", number, queue_name="lane")
        caller.commit()
    assert last_values(stage) == before


def last_values(stage: Stage) -> list[object]:
    return stage.query(
        "select sequencename, last_value from pg_sequences where schemaname = %s"
        " and sequencename in ('tasks_id_seq', 'job_queues_id_seq') order by 1",
        [stage.schema],
    )
