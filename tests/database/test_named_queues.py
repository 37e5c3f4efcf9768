"""Named queues: at most one job of each is taken, by anyone, in order."""

from __future__ import annotations

import threading
from collections import defaultdict
from datetime import UTC, datetime, timedelta

from django_graphile_worker.jobs import LockedJob
from django_graphile_worker.statements import worker as statements
from django_graphile_worker.statements.worker import QueueLock
from tests.conftest import Connect
from tests.database.test_get_jobs import ME, ago, fetch, ids
from tests.living import enlist
from tests.worker.conftest import queue as queue
from tests.worker.tools import Queue, Session, run


def free(queue: Queue, *jobs: LockedJob, worker_id: str = ME) -> frozenset[int]:
    locks = [
        QueueLock(job.queue_id, job.id, job.locked_at) for job in jobs if job.queue_id is not None
    ]
    return run(
        queue.session,
        statements.free_queues(schema=queue.schema, worker_id=worker_id, locks=locks),
    )


def test_one_fetch_takes_one_job_of_each_queue(queue: Queue) -> None:
    first = queue.add(queue_name="a", run_at=ago(50))
    queue.add(queue_name="a", run_at=ago(40))
    other = queue.add(queue_name="b", run_at=ago(30))
    free_of_queues = queue.add(run_at=ago(20))

    jobs = fetch(queue)

    assert ids(jobs) == [first, other, free_of_queues]
    assert queue.queue("a")["locked_by"] == ME
    assert queue.queue("a")["locked_at"] == jobs[0].locked_at
    assert jobs[0].queue_id == queue.queue("a")["id"]


def test_a_locked_queue_gives_nothing_more(queue: Queue) -> None:
    queue.add(queue_name="a", run_at=ago(50))
    queue.add(queue_name="a", run_at=ago(40))
    fetch(queue)

    assert fetch(queue) == []


def test_a_queue_is_not_taken_ahead_of_free_slots(queue: Queue) -> None:
    queue.add(queue_name="a")

    assert fetch(queue, slots=0, room=9) == []
    assert queue.queue("a")["locked_by"] is None


def test_jobs_with_and_without_queue_are_taken_in_one_order(queue: Queue) -> None:
    queue.add(queue_name="late", run_at=ago(10))
    first = queue.add(queue_name="a", run_at=ago(50))
    second = queue.add(run_at=ago(40))

    assert ids(fetch(queue, slots=2, room=2)) == [first, second]


def test_the_jobs_of_one_queue_hide_no_other(queue: Queue) -> None:
    first, *_ = [queue.add(queue_name="a", run_at=ago(100 - n)) for n in range(20)]
    behind = queue.add(queue_name="b", run_at=ago(10))

    assert ids(fetch(queue, slots=5, room=5)) == [first, behind]


def test_with_thousands_of_queues_each_one_has_its_turn(queue: Queue) -> None:
    names = [f"customer {n}" for n in range(1_000)]
    queue.query("insert into {queues} (queue_name) select unnest(%s::text[])", [names])
    queue.add()
    queue.query(
        "insert into {jobs} (task_id, job_queue_id) select tasks.id, queues.id"
        " from {tasks} tasks, {queues} queues"
    )
    # No fetch looks at all of them, so none takes all.
    taken = fetch(queue, slots=1_000, room=1_000)
    assert 100 < len(taken) < 300
    while more := fetch(queue, slots=1_000, room=1_000):
        taken += more

    assert len({job.queue_id for job in taken}) == len(taken) == 1_001


def test_a_queue_row_that_somebody_holds_is_passed_over(queue: Queue, connect: Connect) -> None:
    queue.add(queue_name="a", run_at=ago(50))
    other = queue.add(queue_name="b", run_at=ago(40))
    caller = connect(autocommit=False)
    queue.query("select from {queues} where queue_name = 'a' for update", session=caller)
    queue.session.execute("set lock_timeout = '1s'")

    assert ids(fetch(queue)) == [other]
    caller.rollback()


def test_a_queue_stays_free_while_somebody_holds_its_first_job(
    queue: Queue, connect: Connect
) -> None:
    head = queue.add(queue_name="a", run_at=ago(50))
    queue.add(queue_name="a", run_at=ago(40))
    caller = connect(autocommit=False)
    queue.query("select from {jobs} where id = %s for update", [head], session=caller)

    # Not the second one in its place: the order of a queue is worth a pause.
    assert fetch(queue) == []
    assert queue.queue("a")["locked_by"] is None
    caller.rollback()
    assert ids(fetch(queue)) == [head]


def test_only_the_lock_of_that_fetch_is_freed(queue: Queue) -> None:
    queue.add(queue_name="a", run_at=ago(50))
    (first,) = fetch(queue)
    queue.query("update {queues} set locked_at = null, locked_by = null")
    queue.add(queue_name="a", run_at=ago(60))
    (second,) = fetch(queue)

    # The first job's lock is long gone; the queue is locked for the second one.
    assert free(queue, first) == frozenset()
    assert queue.queue("a")["locked_at"] == second.locked_at
    assert free(queue, second, worker_id="somebody") == frozenset()
    assert queue.queue("a")["locked_by"] == ME
    assert free(queue, second) == frozenset()
    assert queue.queue("a")["locked_by"] is None
    assert queue.queue("a")["is_available"] is True


def test_a_queue_row_that_somebody_holds_is_named_and_not_waited_for(
    queue: Queue, connect: Connect
) -> None:
    queue.add(queue_name="a")
    queue.add(queue_name="b")
    jobs = fetch(queue)
    caller = connect(autocommit=False)
    queue.query("select from {queues} where queue_name = 'b' for update", session=caller)
    queue.session.execute("set lock_timeout = '1s'")

    assert free(queue, *jobs) == {queue.queue("b")["id"]}
    assert queue.queue("a")["locked_by"] is None
    caller.rollback()
    assert free(queue, *jobs) == frozenset()
    assert queue.queue("b")["locked_by"] is None


def test_four_fetchers_never_share_a_queue(queue: Queue, connect: Connect) -> None:
    """Bare statements from four sessions, queue freed before, after or between: no overlap."""
    lanes, each = 3, 60
    start = datetime.now(UTC) - timedelta(hours=1)
    for n in range(each):
        for lane in range(lanes):
            queue.add(queue_name=f"lane {lane}", run_at=start + timedelta(seconds=n))
    running: dict[int, list[int]] = defaultdict(list)
    order: dict[int, list[float]] = defaultdict(list)
    overlaps: list[list[int]] = []
    mutex = threading.Lock()

    def work(session: Session, worker_id: str) -> None:
        empty = 0
        while empty < 200:
            jobs = fetch(queue, session, worker_id=worker_id, slots=2, room=2)
            empty = 0 if jobs else empty + 1
            for job in jobs:
                assert job.queue_id is not None
                with mutex:
                    running[job.queue_id].append(job.id)
                    order[job.queue_id].append(job.run_at)
                    if len(running[job.queue_id]) > 1:
                        overlaps.append(list(running[job.queue_id]))
            for job in jobs:
                assert job.queue_id is not None
                with mutex:
                    running[job.queue_id].remove(job.id)
                lock = QueueLock(job.queue_id, job.id, job.locked_at)
                missed = frozenset({0})
                while missed:
                    missed = run(
                        session,
                        statements.free_queues(
                            schema=queue.schema, worker_id=worker_id, locks=[lock]
                        ),
                    )
                done = 0
                while not done:
                    done = run(
                        session,
                        statements.complete_jobs(
                            schema=queue.schema, worker_id=worker_id, jobs=[job]
                        ),
                    ).count

    enlist(queue.session, queue.schema, *(f"worker {number}" for number in range(4)))
    threads = [
        threading.Thread(target=work, args=[connect(), f"worker {number}"]) for number in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert overlaps == []
    assert sum(map(len, order.values())) == lanes * each
    assert all(times == sorted(times) for times in order.values())
    assert queue.jobs() == []
    assert queue.locks() == 0
