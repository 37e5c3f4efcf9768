-- The first part of get_jobs, in its other form: the line of jobs without queue, lane by lane.
-- Locks those jobs with skip locked. Returns nothing by itself.
--
-- A lane is one task and one priority. Its due jobs lie side by side in an index, and those that
-- nobody here serves, and those of the future, are not met at all. Priority is exact, and within a
-- task run_at; tasks of one priority take turns by batch, the one that waits longest first. With
-- many busy tasks and small batches it is the slower form (a hundred by a hundred: 0.7).
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
lane_walk (task_id, priority) as (
  select served.id, (
    select job.priority
    from :SCHEMA._private_jobs as job
    where job.is_available = true and job.job_queue_id is null and job.task_id = served.id
    order by job.priority
    limit 1
  )
  from served
  where exists (select from me)
  union all
  select lane_walk.task_id, (
    select job.priority
    from :SCHEMA._private_jobs as job
    where job.is_available = true
      and job.job_queue_id is null
      and job.task_id = lane_walk.task_id
      and job.priority > lane_walk.priority
    order by job.priority
    limit 1
  )
  from lane_walk
  where lane_walk.priority is not null
),
lanes as materialized (
  select lane_walk.task_id, lane_walk.priority
  from lane_walk
  cross join lateral (
    select job.run_at
    from :SCHEMA._private_jobs as job
    where job.is_available = true
      and job.job_queue_id is null
      and job.task_id = lane_walk.task_id
      and job.priority = lane_walk.priority
      and job.run_at <= coalesce(%(now)s::timestamptz, now())
    order by job.run_at
    limit 1
  ) as head
  where lane_walk.priority is not null
  order by lane_walk.priority, head.run_at
),
line as materialized (
  -- Not sorted: the limit then ends the scan, and no lane locks jobs that another one displaces.
  select candidate.*
  from lanes
  cross join lateral (
    select job.id, job.ctid as place, job.key is not null as has_key, job.priority, job.run_at
    from :SCHEMA._private_jobs as job
    where job.is_available = true
      and job.job_queue_id is null
      and job.task_id = lanes.task_id
      and job.priority = lanes.priority
      and job.run_at <= coalesce(%(now)s::timestamptz, now())
      and (job.flags is null or not job.flags ?| %(forbidden_flags)s::text[])
    order by job.run_at
    limit %(room)s::int
    for update skip locked
  ) as candidate
  limit %(room)s::int
),
