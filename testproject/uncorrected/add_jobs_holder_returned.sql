-- Add many jobs; where a request was lost, the caller is given the job that was in its way.
create function :BESIDE.add_jobs(
  specs :SCHEMA.job_spec[],
  job_key_preserve_run_at boolean default false
) returns setof :SCHEMA._private_jobs
language plpgsql volatile as $$
declare
  v_ids constant bigint[] := array(
    select stored.id from :BESIDE.store(specs, job_key_preserve_run_at) as stored
  );
begin
  return query
  select job.*
  from :SCHEMA._private_jobs as job
  where job.id = any (v_ids) or job.key in (select spec.job_key from unnest(specs) as spec)
  order by job.id;
end
$$;
