-- Take the remaining attempts from jobs; returns the rows changed. Leaves alone what a worker holds
-- (a lock younger than four hours). Locks the rows in byte order of their key, then by id.
create or replace function :SCHEMA.permanently_fail_jobs(job_ids bigint[], error_message text default null)
returns setof :SCHEMA._private_jobs
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
    last_error = coalesce(error_message, 'Manually marked as failed'),
    attempts = job.max_attempts,
    updated_at = now()
  from free
  where job.id = free.id
  returning job.*
$$;
