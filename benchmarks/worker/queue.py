"""One database's queue as seen from outside: filled, watched while it drains, looked over."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import psycopg

from benchmarks.databases import Database

PAYLOAD = "{}"

NAME_TASK = """\
insert into {s}._private_tasks (identifier) values (%s)
on conflict (identifier) do update set identifier = excluded.identifier returning id"""

NAME_QUEUES = """\
insert into {s}._private_job_queues (queue_name)
select %s || n from generate_series(1, %s::int) as n"""

# Job n goes to queue number n modulo the number of queues; where there are none, to no queue.
FILL = """\
with queue as materialized (
  select id, row_number() over (order by id) - 1 as number
  from {s}._private_job_queues where queue_name like %(queues)s || '%%'
), filled as (
  insert into {s}._private_jobs (task_id, payload, priority, run_at, attempts, max_attempts,
    job_queue_id)
  select %(task)s::int, %(payload)s::json, %(priority)s::int, now() + %(later)s::interval,
    %(attempts)s::int, 25, queue.id
  from generate_series(0, %(count)s::int - 1) as n
  left join queue on queue.number = n %% (select greatest(count(*), 1) from queue)
  order by n
  returning id
)
select min(id), max(id) from filled"""

LOCK_QUEUES = """\
update {s}._private_job_queues set locked_at = now(), locked_by = 'another worker'
where queue_name like %s || '%%'"""

UNTOUCHED = "select exists (select from {s}._private_jobs where id = %s and attempts = 0)"
# The last ones are run last: looking from their end meets no dead rows until all are gone.
LEFT = """\
select id from {s}._private_jobs where id between %s and %s order by id desc limit 1"""
LOCKED = """\
select (select count(*) from {s}._private_jobs where locked_by is not null and id between %s and %s)
  + (select count(*) from {s}._private_job_queues
     where locked_by is not null and locked_by <> 'another worker')"""


class Span(NamedTuple):
    """The ids of jobs that were added together."""

    first: int
    last: int


class Queue:
    """A session on a scratch database."""

    def __init__(self, database: Database) -> None:
        self.url = database.url
        self._schema = database.schema
        self._connection = database.connect()

    def close(self) -> None:
        self._connection.close()

    def backend(self) -> int:
        return self._connection.info.backend_pid

    def execute(self, text: str, params: Any = None) -> list[Any]:
        cursor = self._connection.execute(text.format(s=self._schema), params)
        return cursor.fetchall() if cursor.description else []

    def clear(self) -> None:
        self.execute("truncate {s}._private_jobs, {s}._private_job_queues")

    def make_queues(self, prefix: str, count: int, *, locked: bool = False) -> None:
        self.execute(NAME_QUEUES, [prefix, count])
        if locked:
            self.execute(LOCK_QUEUES, [prefix])

    def fill(
        self,
        task: str,
        count: int,
        *,
        priority: int = 0,
        later: str = "0",
        attempts: int = 0,
        queues: str = "-",
        payload: str = PAYLOAD,
    ) -> Span:
        """Add jobs of a task, in turn for each of the queues whose names begin with ``queues``."""
        [(task_id,)] = self.execute(NAME_TASK, [task])
        [(first, last)] = self.execute(
            FILL,
            {
                "task": task_id,
                "payload": payload,
                "count": count,
                "priority": priority,
                "later": later,
                "attempts": attempts,
                "queues": queues,
            },
        )
        return Span(first, last)

    def settle(self) -> None:
        """Let nothing of the filling disturb what is measured next."""
        self.execute("vacuum (analyze) {s}._private_jobs, {s}._private_job_queues")
        # Not everybody may; the server then does it when it wants.
        with contextlib.suppress(psycopg.errors.InsufficientPrivilege):
            self.execute("checkpoint")

    def watch(self, span: Span, every: float, goes_on: Callable[[], bool]) -> float:
        """Return the seconds from the first job taken to the last one gone.

        Looks every so many seconds, as long as ``goes_on()`` is true; it costs the server about
        0.05 ms each time, whoever works on the queue.
        """
        while goes_on() and self.execute(UNTOUCHED, [span.first])[0][0]:
            time.sleep(every)
        begun = time.perf_counter()
        while self.execute(LEFT, span):
            if not goes_on() and self.execute(LEFT, span):
                break
            time.sleep(every)
        return time.perf_counter() - begun

    def left(self, span: Span) -> bool:
        return bool(self.execute(LEFT, span))

    def locked(self, span: Span) -> int:
        """How many jobs and queues are still locked by a worker."""
        count: int = self.execute(LOCKED, span)[0][0]
        return count
