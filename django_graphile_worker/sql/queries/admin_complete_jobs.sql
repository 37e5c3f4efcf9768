-- Delete jobs that no worker holds. Locks them in byte order of their keys, then by id.
-- Returns them.
--
-- The outer joins are for a task or queue row that somebody deleted by hand.
select
  job.id,
  job.key,
  job.revision,
  least(greatest(job.run_at, '0001-01-01 00:00+00'), '9999-12-31 23:59:59+00') at time zone 'UTC',
  job.priority,
  job.attempts,
  job.max_attempts,
  job.created_at at time zone 'UTC',
  job.updated_at at time zone 'UTC',
  job.flags::text,
  coalesce(task.identifier, ''),
  queue.queue_name,
  job.last_error,
  job.locked_at at time zone 'UTC',
  job.locked_by
from :SCHEMA.complete_jobs(%(job_ids)s::bigint[]) as job
left join :SCHEMA._private_tasks as task on task.id = job.task_id
left join :SCHEMA._private_job_queues as queue on queue.id = job.job_queue_id
order by job.id
