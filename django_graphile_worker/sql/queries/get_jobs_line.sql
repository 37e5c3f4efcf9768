-- The first part of get_jobs: the line of jobs without queue, one walk along the jobs by priority.
-- Locks those jobs with skip locked. Returns nothing by itself. Quick wherever the walk meets little
-- that is not ours to take.
with recursive
me as materialized (
  select from :SCHEMA.django_workers as worker
  where worker.worker_id = %(worker_id)s and worker.dead_at is null
),
served as materialized (
  -- Looked up each time, so that a task row that is collected and made again needs no restart.
  select task.id, task.identifier
  from :SCHEMA._private_tasks as task
  where task.identifier = any (%(identifiers)s::text[])
),
line as materialized (
  select job.id, job.ctid as place, job.key is not null as has_key, job.priority, job.run_at
  from :SCHEMA._private_jobs as job
  where job.is_available = true
    and job.job_queue_id is null
    and job.run_at <= coalesce(%(now)s::timestamptz, now())
    and job.task_id = any (array(select served.id from served))
    and (job.flags is null or not job.flags ?| %(forbidden_flags)s::text[])
    and exists (select from me)
  order by job.priority, job.run_at
  limit %(room)s::int
  for update skip locked
),
