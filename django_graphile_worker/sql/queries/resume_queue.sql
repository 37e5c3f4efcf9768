-- Free a queue that is paused, unless one of its jobs is locked. Locks nothing that the caller has not
-- locked before. Returns the id and the holder of that job, or no row.
--
-- A statement of its own after the lock: from then on nobody takes a job, and whatever was taken
-- before is committed and seen here. To hand the queue to whoever runs that job instead would leave
-- it locked for good: a completion that has begun by then does not see its own name on the queue.
with running as materialized (
  select job.id, coalesce(job.locked_by, '') as locked_by
  from :SCHEMA._private_jobs as job
  where job.is_available = false and job.locked_at is not null and job.job_queue_id = %(queue_id)s
  limit 1
),
freed as (
  update :SCHEMA._private_job_queues as queue
  set locked_by = null, locked_at = null
  where queue.id = %(queue_id)s and not exists (select from running)
  returning pg_notify('jobs:insert', '{"r":' || random() || ',"count":1}')
)
select running.id, running.locked_by from running
