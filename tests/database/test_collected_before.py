"""A name is collected after a transaction's snapshot was taken: there it still seems to be.

Under REPEATABLE READ and SERIALIZABLE a look at the names tells nothing, then; a job that belonged
to no task would be stored in silence, and nobody would ever run it.
"""

from __future__ import annotations

import psycopg
import pytest
from psycopg import IsolationLevel

from tests.database.stage import Stage
from tests.database.test_collected_names import ALL, NAMES, assert_unharmed, collect, make_names
from tests.database.ways import Way

LEVELS = [IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE]


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
@pytest.mark.parametrize("names", NAMES, ids="-".join)
@pytest.mark.parametrize("way", ALL, ids=str)
def test_it_costs_nothing(stage: Stage, way: Way, names: list[str], level: IsolationLevel) -> None:
    make_names(stage)
    caller = stage.session(level)
    caller.execute("select 1")
    collect(stage, names)
    row = way.request(stage, caller, "k", 2, queue_name="lane")
    caller.commit()
    assert_unharmed(stage, row)


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
@pytest.mark.parametrize("way", ALL, ids=str)
def test_where_somebody_has_made_it_anew_the_call_raises_40001(
    stage: Stage, way: Way, level: IsolationLevel
) -> None:
    make_names(stage)
    caller = stage.session(level)
    caller.execute("select 1")
    collect(stage, ["tasks", "queues"])
    make_names(stage)
    with pytest.raises(psycopg.errors.SerializationFailure):
        way.request(stage, caller, "k", 2, queue_name="lane")
    caller.rollback()
    row = way.request(stage, caller, "k", 2, queue_name="lane")
    caller.commit()
    assert_unharmed(stage, row)


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
def test_names_that_are_there_cost_no_identity_value(
    stage: Stage, way: Way, level: IsolationLevel
) -> None:
    make_names(stage)
    caller = stage.session(level)
    way.request(stage, caller, "k", 1, queue_name="lane")
    caller.commit()
    sequences = "select pg_sequence_last_value(pg_get_serial_sequence(%s, 'id')::regclass)"
    tables = [
        f'"{stage.schema.replace(chr(34), chr(34) * 2)}".{name}'
        for name in ("_private_tasks", "_private_job_queues")
    ]
    before = [stage.query(sequences, [table]) for table in tables]
    for number in range(2, 5):
        way.request(stage, caller, "k", number, queue_name="lane")
        caller.commit()
    assert [stage.query(sequences, [table]) for table in tables] == before
