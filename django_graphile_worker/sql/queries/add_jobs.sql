-- Add many jobs, or change those that hold their keys. Locks those in byte order of their keys.
-- Returns one row per spec, in the order of the specs.
--
-- The specs come as one JSON document: 10,000 of them cost 70 to 100 ms on their way into job_spec
-- (client and server together), where nine arrays from the driver's lists cost 150 to 250 ms, most
-- of it in the client. The payload of each is copied as it stands, not parsed into values.
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
from :SCHEMA.add_jobs(
  specs => array(
    select
      cast(row(
        spec.identifier,
        spec.payload,
        spec.queue_name,
        coalesce(spec.run_at, statement_timestamp() + spec.delay),
        spec.max_attempts,
        spec.job_key,
        spec.priority,
        spec.flags
      ) as :SCHEMA.job_spec)
    from rows from (
      json_to_recordset(%(specs)s::json) as (
        identifier text,
        payload json,
        queue_name text,
        run_at timestamptz,
        delay interval,
        max_attempts smallint,
        job_key text,
        priority smallint,
        flags text[]
      )
    ) with ordinality as spec(
      identifier, payload, queue_name, run_at, delay, max_attempts, job_key, priority, flags,
      position
    )
    order by spec.position
  ),
  job_key_preserve_run_at => %(job_key_preserve_run_at)s::boolean
) with ordinality as job(
  id, job_queue_id, task_id, payload, priority, run_at, attempts, max_attempts, last_error,
  created_at, updated_at, key, locked_at, locked_by, revision, flags, is_available, position
)
order by job.position
