-- Delete jobs as if they had run; returns the rows deleted. Leaves alone what a worker holds (a
-- lock younger than four hours). Locks the rows in byte order of their key, then by id: the one
-- order that every statement of ours over several jobs keeps, so that none wait in a circle.
create or replace function :SCHEMA.complete_jobs(job_ids bigint[]) returns setof :SCHEMA._private_jobs
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
  delete from :SCHEMA._private_jobs as job
  using free
  where job.id = free.id
  returning job.*
$$;
