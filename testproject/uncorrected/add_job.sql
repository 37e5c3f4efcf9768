-- Add one job by way of `add_jobs`: what that loses, this loses.
create function :BESIDE.add_job(
  identifier text,
  payload json default null,
  queue_name text default null,
  run_at timestamptz default null,
  max_attempts int default null,
  job_key text default null,
  priority int default null,
  flags text[] default null,
  job_key_mode text default 'replace'
) returns :SCHEMA._private_jobs
language plpgsql volatile as $$
declare
  v_job :SCHEMA._private_jobs;
begin
  if job_key_mode not in ('replace', 'preserve_run_at', 'unsafe_dedupe') then
    raise exception using
      errcode = 'GWBKM', message = format('add_job: job_key_mode is %L', job_key_mode);
  end if;
  if job_key_mode = 'unsafe_dedupe' then
    update :SCHEMA._private_jobs as job
    set revision = job.revision + 1, updated_at = now()
    where job.key = add_job.job_key
    returning job.* into v_job;
    if found then
      return v_job;
    end if;
  end if;

  select added.* into v_job
  from :BESIDE.add_jobs(
    array[cast(row(
      identifier, payload, queue_name, run_at, max_attempts, job_key, priority, flags
    ) as :SCHEMA.job_spec)],
    job_key_mode = 'preserve_run_at'
  ) as added;
  return v_job;
end
$$;
