"""The statements that are measured. ``{s}`` stands for the quoted name of the schema.

The bare ones store the rows that the functions store and return them whole, and do nothing else:
no name is looked up, no holder is looked at, no payload is joined, nobody is told.
"""

from __future__ import annotations

ADD_JOB = {
    "no queue": "select * from {s}.add_job(%s, %s::json)",
    "queue": "select * from {s}.add_job(%s, %s::json, queue_name => %s)",
    "key": "select * from {s}.add_job(%s, %s::json, job_key => %s)",
}

ALL_NEW = """\
  job_queue_id = excluded.job_queue_id, task_id = excluded.task_id, payload = excluded.payload,
  run_at = excluded.run_at, max_attempts = excluded.max_attempts, priority = excluded.priority,
  flags = excluded.flags, revision = job.revision + 1, attempts = 0, last_error = null,
  updated_at = now()"""

BARE = {
    "no queue": (
        "insert into {s}._private_jobs as job (task_id, payload) values (%s, %s::json) returning *"
    ),
    "queue": (
        "insert into {s}._private_jobs as job (task_id, payload, job_queue_id)"
        " values (%s, %s::json, %s) returning *"
    ),
    "key": (
        "insert into {s}._private_jobs as job (task_id, payload, key) values (%s, %s::json, %s)"
        f" on conflict (key) do update set\n{ALL_NEW}\nreturning *"
    ),
}

ADD_JOBS = "select * from {s}.add_jobs(%s::{s}.job_spec[])"

BARE_MANY = f"""\
insert into {{s}}._private_jobs as job (task_id, payload, run_at, max_attempts, key, priority)
select %s::int, spec.payload, coalesce(spec.run_at, now()), coalesce(spec.max_attempts, 25),
  spec.job_key, coalesce(spec.priority, 0)
from unnest(%s::{{s}}.job_spec[]) as spec
on conflict (key) do update set
{ALL_NEW}
returning *"""

EMPTY = "truncate {s}._private_jobs"
SETTLE = "vacuum (analyze) {s}._private_jobs"
KNOWN_QUEUE = "select id from {s}._private_job_queues where queue_name = %s"
KNOWN_TASK = "select id from {s}._private_tasks where identifier = %s"

HOLDERS = """\
insert into {s}._private_jobs (task_id, payload, key, attempts, locked_at, locked_by)
select %s::int, %s::json, %s::text || n, case when running then 1 else 0 end,
  case when running then now() end, case when running then 'worker' end
from generate_series(0, %s::int - 1) as n, cast(%s as boolean) as running"""

JOBS = """\
insert into {s}._private_jobs (task_id, payload)
select %s::int, %s::json from generate_series(1, %s::int)"""
LOCKED_INDEX = (
    "create index django_jobs_locked on {s}._private_jobs (locked_at) where (is_available = false)"
)
NO_LOCKED_INDEX = "drop index if exists {s}.django_jobs_locked"

SETTINGS = """\
select name, setting || coalesce(unit, '')
from pg_settings
where name in ('fsync', 'full_page_writes', 'shared_buffers', 'jit', 'server_version', 'wal_level')
union all
select 'collation', datcollate from pg_database where datname = current_database()"""
