-- Add many jobs; where a request was lost, the caller is given the job that was in its way.
create function :BESIDE.add_jobs(
  specs :SCHEMA.job_spec[],
  job_key_preserve_run_at boolean default false
) returns setof :SCHEMA._private_jobs
language plpgsql volatile as $$
declare
  v_new_ids constant bigint[] := array(
    select stored.id
    from :BESIDE.store(specs, job_key_preserve_run_at) as stored
    order by stored.key nulls first, stored.id
  );
begin
  return query
  with spec as materialized (
    select
      item.job_key, item.position,
      count(*) filter (where item.job_key is null) over (order by item.position) as nth_new
    from unnest(specs) with ordinality as item(
      identifier, payload, queue_name, run_at, max_attempts, job_key, priority, flags, position)
  )
  select job.*
  from spec
  join :SCHEMA._private_jobs as job
    on job.key = spec.job_key or (spec.job_key is null and job.id = v_new_ids[spec.nth_new])
  order by spec.position;
end
$$;
