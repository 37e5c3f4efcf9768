-- Read one job that the same transaction has just touched. Locks nothing. Returns it with the names
-- of its task and queue: deduplicating may find a job of another task than the one asked for.
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
  job.task_identifier,
  job.queue_name
from :SCHEMA.jobs as job
where job.id = %(id)s::bigint
