"""Jobs whose task or queue row is gone are counted, and told of by a check."""

from __future__ import annotations

import pytest
from django.core.checks import Tags, run_checks
from django.db import connections, transaction

from django_graphile_worker import checks, enqueue, enqueue_many
from django_graphile_worker.conf import get_config
from django_graphile_worker.statements import jobs, workers
from tests.fresh import Fresh


def told(alias: str = "fresh") -> list[str]:
    found = run_checks(tags=[Tags.database], databases=[alias])
    return [message.msg for message in found if message.id == "graphile_worker.W010"]


def counted(most: int = jobs.MOST_STRANDED) -> int:
    with connections["fresh"].cursor() as cursor:
        return jobs.count_stranded_jobs(schema=get_config().schema, most=most).run(cursor)


@pytest.fixture
def installed(fresh: Fresh) -> Fresh:
    fresh.migrate()
    return fresh


def test_where_nothing_is_installed_nothing_is_told(fresh: Fresh) -> None:
    assert told() == []


@pytest.mark.parametrize("table", ["tasks", "job_queues"])
@pytest.mark.parametrize("queued", [False, True], ids=["alone", "queued"])
def test_each_kind_is_counted(installed: Fresh, table: str, queued: bool) -> None:
    lane = "lane" if queued else None
    enqueue_many([{"task": "sound", "queue_name": "sound"}, "sound"], using="fresh")
    enqueue_many([{"task": "gone", "queue_name": lane}] * 3, using="fresh")
    assert (counted(), told()) == (0, [])
    column = "identifier" if table == "tasks" else "queue_name"
    installed.run(f"delete from {{}}._private_{table} where {column} in ('gone', 'lane')")
    expected = 3 if table == "tasks" or queued else 0
    assert counted() == expected
    assert counted(most=2) == min(2, expected)
    assert [f"'fresh': {expected}." in message for message in told()] == [True] * bool(expected)


def test_what_nobody_would_run_anyway_is_not_counted(installed: Fresh) -> None:
    enqueue_many(["gone", {"task": "gone", "queue_name": "lane"}] * 2, using="fresh")
    installed.run("update {}._private_jobs set attempts = max_attempts where id % 4 < 2")
    installed.run("update {}._private_jobs set locked_at = now(), locked_by = 'x' where id % 4 > 1")
    installed.run("delete from {}._private_tasks")
    assert counted() == 0


def test_it_is_told_if_there_was_not_enough_time(
    installed: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "LONGEST_COUNT", 0.05)
    session = installed.connect()
    with session.transaction():
        session.execute('lock table "graphile_worker"._private_jobs in access exclusive mode')
        (message,) = told()
    assert "'fresh': it took too long" in message


def test_many_are_told_of_as_many(installed: Fresh) -> None:
    enqueue_many(["gone"] * 1_001, using="fresh")
    installed.run("delete from {}._private_tasks")
    (message,) = told()
    assert "1000 or more" in message


def test_a_table_full_of_sound_jobs_is_not_read(installed: Fresh) -> None:
    enqueue_many([f"task {n}" for n in range(10)], using="fresh")
    installed.run(
        "insert into {}._private_jobs (task_id)"
        " select task_id from {}._private_jobs, generate_series(1, 2000)"
    )
    statement = jobs.count_stranded_jobs(schema=get_config().schema)
    with transaction.atomic(using="fresh"), connections["fresh"].cursor() as cursor:
        workers.prepare_upkeep(seconds=10, local=True).run(cursor)
        cursor.execute(
            f"explain (analyze, buffers, format json) {statement.text}", statement.params
        )
        ((plan,),) = cursor.fetchall()
    read = list(rows_read(plan[0]["Plan"]))
    assert read
    assert sum(read) < 100, read


def rows_read(plan: dict[str, object]) -> list[float]:
    """How many rows each scan of the jobs has read, those that it threw away included."""
    below = plan.get("Plans", [])
    assert isinstance(below, list)
    found = [rows for each in below for rows in rows_read(each)]
    if plan.get("Relation Name") == "_private_jobs":
        each = float(str(plan["Actual Rows"])) + float(str(plan.get("Rows Removed by Filter", 0)))
        found.append(each * float(str(plan["Actual Loops"])))
    return found


def test_a_check_in_a_transaction_leaves_its_settings(installed: Fresh) -> None:
    with transaction.atomic(using="fresh"), connections["fresh"].cursor() as cursor:
        cursor.execute("set local statement_timeout = '1min'")
        enqueue("gone", using="fresh")
        assert told() == []
        cursor.execute("show statement_timeout")
        assert cursor.fetchone() == ("1min",)
        cursor.execute("show enable_sort")
        assert cursor.fetchone() == ("on",)
    assert len(installed.rows("_private_jobs")) == 1
