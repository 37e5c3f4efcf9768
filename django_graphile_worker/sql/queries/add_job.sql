-- Add one job, or change the one that holds its key. Locks that one only. Returns the job.
--
-- A delay counts from the statement, not from the start of the caller's transaction: "in five
-- minutes" said at the end of a long transaction must not be now. Times leave as UTC without zone,
-- so that neither the session's time zone nor the client's loaders can change what is read.
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
  job.flags::text
from :SCHEMA.add_job(
  identifier => %(identifier)s::text,
  payload => %(payload)s::json,
  queue_name => %(queue_name)s::text,
  run_at => coalesce(%(run_at)s::timestamptz, statement_timestamp() + %(delay)s::interval),
  max_attempts => %(max_attempts)s::int,
  job_key => %(job_key)s::text,
  priority => %(priority)s::int,
  flags => %(flags)s::text[],
  job_key_mode => %(job_key_mode)s::text
) as job
