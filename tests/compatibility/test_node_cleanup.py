"""Node's cleanup deletes names that no job uses. What a caller can lose by it, a query counts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction

from django_graphile_worker import enqueue
from django_graphile_worker.statements import jobs
from tests.compatibility.fleet import Fleet
from tests.compatibility.storm import STRANDED, KeyedStorm
from tests.compatibility.test_mixed_keys import Record
from tests.compatibility.test_mixed_keys import record as record
from tests.compatibility.test_mixed_keys import seconds as seconds
from tests.conftest import Connect
from tests.doors.programs import WITHIN
from tests.storm.actors import numbers_in
from tests.waiting import eventually
from tests.worker.tools import Queue, Session

pytestmark = pytest.mark.node

GC = {"tasks": "GC_TASK_IDENTIFIERS", "queues": "GC_JOB_QUEUES"}


def stranded(fleet: Fleet) -> list[int]:
    """The ids of the jobs that nobody ever runs."""
    rows = fleet.queue.query(f"select job.id from {{jobs}} as job where {STRANDED} order by id")
    return [row["id"] for row in rows]


def count(fleet: Fleet) -> int:
    """The same as the check counts them."""
    statement = jobs.count_stranded_jobs(schema=fleet.schema)
    with connection.cursor() as cursor:
        return statement.run(cursor)


@pytest.mark.parametrize("version", ["0.18", "0.17"])
@pytest.mark.parametrize("table", ["tasks", "queues"])
def test_a_cleanup_before_a_commit_strands_the_job(fleet: Fleet, table: str, version: str) -> None:
    clean = ["cleanup", {"tasks": [GC[table]]}]
    fleet.queue.query("select * from {add_job}('note', queue_name => 'lane', job_key => 'k')")
    fleet.queue.query("delete from {jobs}")
    with transaction.atomic():
        job = enqueue("note", {"n": 1}, queue_name="lane")
        # Another session: it does not see the job, and deletes what seems unused.
        fleet.call(clean, version=version)
        assert fleet.queue.query(f"select id from {{{table}}}") == []
    assert stranded(fleet) == [job.id]
    assert count(fleet) == 1
    # What is added later makes the name anew, and is run, by either.
    later = enqueue("note", {"n": 2}, queue_name="lane")
    assert stranded(fleet) == [job.id]
    peers = fleet.both(version=version)
    fleet.began(1)
    for peer in peers:
        fleet.stop(peer)
    assert [run["job"] for run in fleet.runs()] == [later.id]
    assert stranded(fleet) == [job.id]
    # While it is there, a cleanup leaves it alone.
    fleet.call(clean, version=version)
    assert [row["id"] for row in fleet.queue.jobs()] == [job.id]


def test_names_in_use_are_left_alone(fleet: Fleet) -> None:
    enqueue("note", {"n": 1}, queue_name="lane")
    fleet.call(["cleanup", {"tasks": list(GC.values())}])
    assert stranded(fleet) == []
    assert len(fleet.queue.query("select id from {tasks}")) == 1
    assert len(fleet.queue.query("select id from {queues}")) == 1


@pytest.mark.storm
def test_all_that_is_lost_beside_a_cleanup_is_counted(
    fleet: Fleet, seconds: float, record: Record, connect: Connect
) -> None:
    """One job at least is lost for certain: it is committed once the cleanup has taken its name."""
    fleet.queue.query("select * from {add_job}('stray', job_key => 'stray')")
    fleet.queue.query("delete from {jobs}")
    caller = connect(autocommit=False)
    add = "select id from {add_job}('stray', '[0]')"
    ((stray,),) = [row.values() for row in fleet.queue.query(add, [], caller)]
    watcher = Queue(connect(), fleet.schema)
    storm = KeyedStorm(fleet, seconds, cleaning=tuple(GC.values()))
    with ThreadPoolExecutor(1) as pool:
        committed = pool.submit(_commit_when_its_name_is_gone, watcher, caller)
        report = storm.run()
        committed.result()
    record(report)
    counted = {
        number
        for row in fleet.queue.query(f"select payload from {{jobs}} as job where {STRANDED}")
        for number in numbers_in(row["payload"])
    }
    report.counts["stranded"] = len(counted)
    assert stray in stranded(fleet)
    assert count(fleet) == len(stranded(fleet)) > 0
    assert report.counts["cleanings"] > 0, str(report)
    assert report.lost <= counted, str(report)
    assert report.missing == [], str(report)


def _commit_when_its_name_is_gone(watcher: Queue, caller: Session) -> None:
    def is_gone() -> None:
        assert watcher.query("select id from {tasks} where identifier = 'stray'") == []

    eventually(is_gone, 2 * WITHIN)
    caller.commit()
