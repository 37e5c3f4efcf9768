"""Due jobs whose task nobody serves here are named, once, and left alone."""

from __future__ import annotations

import logging

import pytest
from psycopg import sql

from django_graphile_worker.statements import worker as statements
from django_graphile_worker.worker import strangers
from tests.database.test_get_jobs import ago
from tests.worker.conftest import StartPool
from tests.worker.tools import Queue, register, run


@pytest.mark.parametrize("told", [True, False])
def test_they_are_named_unless_the_pool_was_told_which_tasks_to_serve(
    queue: Queue,
    start_pool: StartPool,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    told: bool,
) -> None:
    monkeypatch.setattr(strangers, "EVERY", 0.0)
    strange = queue.add("sned_letter", run_at=ago(90))
    queue.add("just come")
    with caplog.at_level(logging.WARNING, "graphile_worker"):
        running = start_pool(
            register(task=lambda: None),
            poll_interval=0.01,
            identifiers=["task"] if told else None,
        )
        for _ in range(5):
            running.pool.fetcher.fetched.wait()

    named = [record.message for record in caplog.records if "not served here" in record.message]
    assert named == ([] if told else [named[0]])
    assert told or ": sned_letter." in named[0]
    row = queue.job(strange)
    assert row is not None
    assert (row["attempts"], row["locked_by"]) == (0, None)


def test_a_role_that_may_not_see_the_rows_is_found(queue: Queue) -> None:
    statement = statements.rows_are_hidden(schema=queue.schema)
    assert run(queue.session, statement) is False  # a superuser sees everything
    with queue.session.transaction(force_rollback=True):
        queue.query("create role nobody_special")
        queue.session.execute(
            sql.SQL("grant usage on schema {} to nobody_special").format(
                sql.Identifier(queue.schema)
            )
        )
        queue.query("grant select on {jobs} to nobody_special")
        queue.query("set local role nobody_special")
        assert run(queue.session, statement) is True
