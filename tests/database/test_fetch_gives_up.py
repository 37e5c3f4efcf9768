"""A fetch passes over locked rows. Where PostgreSQL makes it wait all the same, it gives up.

That it does is a race within PostgreSQL, which no test can force; here it waits for a table.
"""

from __future__ import annotations

import psycopg
import pytest

from django_graphile_worker.statements import worker as statements
from django_graphile_worker.statements.base import Statement
from django_graphile_worker.worker.connections import Link
from tests.database.stage import Stage


def test_before_postgresql_looks_for_deadlocks(stage: Stage) -> None:
    job_id = stage.make_job("k", [1])
    holding = stage.session()
    stage.query("lock table {jobs} in access exclusive mode", session=holding)
    link = Link("default", "test")
    fetch = statements.get_jobs(
        schema=stage.schema, worker_id="worker", identifiers=["task"], slots=1, room=1
    )
    try:
        call = stage.start(
            link.connection(), lambda: link.run_prepared(statements.set_up_worker, fetch)
        )
        with pytest.raises(psycopg.errors.LockNotAvailable):
            call.result()
        row = stage.query("select current_setting('deadlock_timeout')::interval as it")[0]
        mine = link.run_prepared(
            statements.set_up_worker,
            Statement(
                "test", "select current_setting('lock_timeout')::interval", {}, lambda rows: rows
            ),
        )
        assert mine[0][0] < row.it / 2
        holding.rollback()
        # The connection is as good as before.
        assert [job.id for job in link.run_prepared(statements.set_up_worker, fetch)] == [job_id]
    finally:
        link.close()
