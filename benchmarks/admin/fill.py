"""A queue that nobody would want: two million jobs in all states, and all that is written of them.

A third of the jobs has a key; half of them are of one task and the rest of two hundred; a fifth is
in one of two thousand named queues, a few hundred of which are held. Everything is as uneven as it
gets: the bad case for an estimate is the one name that has nearly all the rows, or none.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks.databases import Connection

TASKS = 200
QUEUES = 2_000
WORKERS = 100
CONFLICTS = 100_000
ERRORS = 100_000
# As many as are kept: each task in each of the last thousand minutes.
MINUTES = 200_000 // TASKS

NAMES = f"""
insert into {{schema}}._private_tasks (identifier)
  select 'task_' || i from generate_series(1, {TASKS}) i;
insert into {{schema}}._private_job_queues (queue_name)
  select 'queue_' || i from generate_series(1, {QUEUES}) i;
update {{schema}}._private_job_queues
  set locked_at = now() - id * interval '1 minute', locked_by = 'django:host:1:' || id % {WORKERS}
  where id % 5 = 0;
insert into {{schema}}.django_workers
  (worker_id, host, pid, concurrency, heartbeat, stale_after, started_at, last_beat_at, dead_at)
  select 'django:host:1:' || i, 'host-' || i % 7, i, 10, '5 s', '30 s', now() - interval '1 day',
    case when i % 3 = 0 then now() - interval '2 minutes' else now() + interval '1 day' end,
    case when i % 6 = 0 then now() - interval '1 minute' end
  from generate_series(0, {WORKERS - 1}) i
"""

# What a state looks like: its share in a thousand, then run_at, attempts, locked_at and locked_by.
STATES = {
    "ready": (300, "now() - i * interval '1 second'", "i % 3", "null", "null"),
    "scheduled": (300, "now() + i * interval '1 second'", "0", "null", "null"),
    "retrying": (100, "now() + i * interval '1 second'", "1 + i % 20", "null", "null"),
    "failed": (297, "now() - i * interval '1 second'", "25", "null", "null"),
    "running": (
        3,
        "now() - interval '1 minute'",
        "1",
        "now() - i % 500 * interval '1 minute'",
        f"case when i % 7 = 0 then 'worker-' || i % 9 else 'django:host:1:' || i % {WORKERS} end",
    ),
}

JOBS = f"""
insert into {{schema}}._private_jobs
  (task_id, job_queue_id, payload, priority, run_at, attempts, locked_at, locked_by, key, flags,
   last_error)
select
  case when i % 2 = 0 then 1 else 1 + i % {TASKS} end,
  case when i % 5 = 1 then 1 + i % {QUEUES} end,
  json_build_object('to', 'ada@example.org', 'number', i, 'text', repeat('x', 100)),
  i % 10, {{run_at}}, {{attempts}}, {{locked_at}}, {{locked_by}},
  case when i % 3 = 0 then '{{state}}-' || i end,
  case when i % 50 = 0 then '{{{{"europe": true}}}}'::jsonb end,
  case when {{attempts}} > 0 then 'Error: ' || repeat('the mail server is away ', 15) end
from generate_series(1, {{count}}) i
"""

CONFLICTS_SQL = f"""
insert into {{schema}}.django_key_conflicts
  (recorded_at, key, mode, superseded_job_id, superseded_task, superseded_state,
   superseded_attempts, superseded_max_attempts, superseded_locked_by, superseded_locked_at,
   successor_job_id, successor_task, outcome, finished_at)
select
  now() - ({CONFLICTS} - i) * interval '6 seconds',
  case when i % 4 = 0 then 'the one key' else 'ready-' || 3 * (i % 5000) end, 'replace',
  case when i > {CONFLICTS} - 50 then running.id else -i end,
  'task_1', 'locked', 1, 25, 'django:host:1:' || i % {WORKERS}, now(),
  coalesce(running.id, i), 'task_' || 1 + i % {TASKS},
  case when i <= {CONFLICTS} - 50 then 'completed' end,
  case when i <= {CONFLICTS} - 50 then now() end
from generate_series(1, {CONFLICTS}) i
left join (
  select id, row_number() over (order by id desc) n from {{schema}}._private_jobs
  where locked_at is not null and is_available = false
) running on running.n = {CONFLICTS} - i + 1
"""

ERRORS_SQL = f"""
insert into {{schema}}.django_job_errors
  (job_id, task_identifier, attempt, max_attempts, error, worker_id, locked_at, failed_at)
select
  case when i % 4 = 0 then (select max(id) from {{schema}}._private_jobs) else i end,
  'task_' || 1 + i % {TASKS}, 1 + i % 25, 25, 'Error: ' || repeat('the mail server is away ', 30),
  'django:host:1:' || i % {WORKERS}, now() - interval '1 hour',
  now() - ({ERRORS} - i) * interval '2 seconds'
from generate_series(1, {ERRORS}) i
"""

STATISTICS_SQL = f"""
insert into {{schema}}.django_statistics
  (minute, task_identifier, succeeded, retried, failed, waits, runs)
select
  date_trunc('minute', now()) - minute * interval '1 minute', 'task_' || task,
  100 + task, task % 3, task % 2,
  array(select (task * n + minute) % 20 from generate_series(1, 30) n),
  array(select (task * n + minute) % 30 from generate_series(1, 25) n)
from generate_series(0, {MINUTES - 1}) minute, generate_series(1, {TASKS}) task
"""


def statements(schema: str, jobs: int) -> Iterator[tuple[str, str]]:
    yield "names and workers", NAMES.format(schema=schema)
    for state, (share, run_at, attempts, locked_at, locked_by) in STATES.items():
        values = {
            "state": state,
            "run_at": run_at,
            "attempts": attempts,
            "locked_at": locked_at,
            "locked_by": locked_by,
            "count": jobs * share // 1000,
        }
        yield f"{values['count']:,} {state} jobs", JOBS.format(schema=schema, **values)
    yield f"{CONFLICTS:,} conflicts", CONFLICTS_SQL.format(schema=schema)
    yield f"{ERRORS:,} failed attempts", ERRORS_SQL.format(schema=schema)
    yield f"{MINUTES * TASKS:,} statistics", STATISTICS_SQL.format(schema=schema)


def fill(connection: Connection, schema: str, jobs: int) -> None:
    """Fill an empty queue, and say how long each part takes. `schema` is quoted already."""
    connection.execute("set synchronous_commit = off")
    for what, statement in statements(schema, jobs):
        begun = time.monotonic()
        connection.execute(statement.encode())
        print(f"{what}: {time.monotonic() - begun:.1f} s", flush=True)
    begun = time.monotonic()
    connection.execute("vacuum (analyze)")
    print(f"vacuum: {time.monotonic() - begun:.1f} s", flush=True)
