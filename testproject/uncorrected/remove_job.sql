-- Remove the job that holds a key, deciding before locking: between the two statements the holder
-- may become another, free one, which then has permanently failed without anybody's wish.
create function :BESIDE.remove_job(job_key text) returns :SCHEMA._private_jobs
language plpgsql volatile strict as $$
declare
  v_job :SCHEMA._private_jobs;
begin
  delete from :SCHEMA._private_jobs as job
  where job.key = remove_job.job_key
    and (job.locked_at is null or job.locked_at < now() - interval '4 hours')
  returning job.* into v_job;
  if found then
    perform pg_notify('jobs:insert', '{"r":' || random() || ',"count":-1}');
    return v_job;
  end if;

  update :SCHEMA._private_jobs as job
  set key = null, attempts = job.max_attempts, updated_at = now()
  where job.key = remove_job.job_key
  returning job.* into v_job;
  return v_job;
end
$$;
