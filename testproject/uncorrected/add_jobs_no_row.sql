-- Add many jobs; the caller is told nothing of a request that was lost.
create function :BESIDE.add_jobs(
  specs :SCHEMA.job_spec[],
  job_key_preserve_run_at boolean default false
) returns setof :SCHEMA._private_jobs
language sql volatile as $$
  select * from :BESIDE.store(specs, job_key_preserve_run_at)
$$;
