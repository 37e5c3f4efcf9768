-- Tell whether a due job is there to be taken, row locks of others aside. Locks nothing.
-- Returns one boolean.
with recursive
served as materialized (
  select task.id
  from :SCHEMA._private_tasks as task
  where task.identifier = any (%(identifiers)s::text[])
),
queue_walk (queue_id) as (
  (
    select job.job_queue_id
    from :SCHEMA._private_jobs as job
    where job.is_available = true and job.job_queue_id is not null
    order by job.job_queue_id
    limit 1
  )
  union all
  select (
    select job.job_queue_id
    from :SCHEMA._private_jobs as job
    where job.is_available = true and job.job_queue_id > queue_walk.queue_id
    order by job.job_queue_id
    limit 1
  )
  from queue_walk
  where queue_walk.queue_id is not null
)
select
  exists (
    select
    from served
    cross join lateral (
      select
      from :SCHEMA._private_jobs as job
      where job.is_available = true
        and job.job_queue_id is null
        and job.task_id = served.id
        and job.run_at <= coalesce(%(now)s::timestamptz, now())
        and (job.flags is null or not job.flags ?| %(forbidden_flags)s::text[])
      limit 1
    ) as due
  )
  or exists (
    select
    from queue_walk
    cross join lateral (
      select
      from :SCHEMA._private_job_queues as queue
      where queue.id = queue_walk.queue_id and queue.is_available
      limit 1
    ) as free
    cross join lateral (
      select
      from :SCHEMA._private_jobs as job
      where job.is_available = true
        and job.job_queue_id = queue_walk.queue_id
        and job.run_at <= coalesce(%(now)s::timestamptz, now())
        and job.task_id = any (array(select served.id from served))
        and (job.flags is null or not job.flags ?| %(forbidden_flags)s::text[])
      limit 1
    ) as due
  )
