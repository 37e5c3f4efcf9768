-- Remove the job that holds a key; returns the job as it was, or as it now is, or a null row. Locks
-- that job only.
--
-- It locks the holder first and decides afterwards: deciding on an unlocked row could turn a new,
-- free job of the same key into one that has permanently failed. A running job cannot be deleted
-- under its worker: it loses its key and gets no retry. A lock older than four hours is stale.
create or replace function :SCHEMA.remove_job(job_key text) returns :SCHEMA._private_jobs
language plpgsql volatile strict as $$
declare
  v_job :SCHEMA._private_jobs;
begin
  -- The holder can be superseded or completed while we wait for it; the key may then have a new
  -- one, which only the next statement sees. Each round waits for at least one other transaction.
  for v_round in 1 .. 100 loop
    perform from :SCHEMA._private_jobs as job where job.key = remove_job.job_key;
    if not found then
      return null;
    end if;

    select job.* into v_job
    from :SCHEMA._private_jobs as job
    where job.key = remove_job.job_key
    for update;
    continue when not found;

    if v_job.locked_at is null or v_job.locked_at < now() - interval '4 hours' then
      delete from :SCHEMA._private_jobs as job where job.id = v_job.id;
      perform pg_notify('jobs:insert', '{"r":' || random() || ',"count":-1}');
    else
      update :SCHEMA._private_jobs as job
      set key = null, attempts = job.max_attempts, updated_at = now()
      where job.id = v_job.id
      returning job.* into v_job;
    end if;
    return v_job;
  end loop;

  raise exception using
    errcode = 'GWBNR',
    message = format('remove_job: the holder of job_key %L changed a hundred times', job_key);
end
$$;
