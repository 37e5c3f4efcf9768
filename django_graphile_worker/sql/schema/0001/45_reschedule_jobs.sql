-- Change when jobs run, with which priority and how many attempts; null leaves a value as it is.
-- Returns the rows changed. Leaves alone what a worker holds (a lock younger than four hours).
-- Locks the rows in byte order of their key, then by id.
create or replace function :SCHEMA.reschedule_jobs(
  job_ids bigint[],
  run_at timestamptz default null,
  priority int default null,
  attempts int default null,
  max_attempts int default null
) returns setof :SCHEMA._private_jobs
language sql volatile as $$
  with free as materialized (
    select job.id
    from :SCHEMA._private_jobs as job
    where job.id = any (job_ids)
      and (job.locked_at is null or job.locked_at < now() - interval '4 hours')
    order by
      coalesce(job.key, :SCHEMA.django_former_key(job.id)) collate "C" nulls last, job.id
    for update
  )
  update :SCHEMA._private_jobs as job
  set
    run_at = coalesce(reschedule_jobs.run_at, job.run_at),
    priority = coalesce(reschedule_jobs.priority::smallint, job.priority),
    attempts = coalesce(reschedule_jobs.attempts::smallint, job.attempts),
    max_attempts = coalesce(reschedule_jobs.max_attempts::smallint, job.max_attempts),
    updated_at = now()
  from free
  where job.id = free.id
  returning job.*
$$;
