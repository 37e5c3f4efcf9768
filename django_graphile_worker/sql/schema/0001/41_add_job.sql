-- Add one job, or change the one that holds its key; returns the job as it then stands. Locks the
-- key's holder, nothing else; a first use of a name waits for another first use of it.
--
-- One statement does it all when the names are known and the key's holder, if any, is available;
-- add_jobs does the rest. ON CONFLICT locks the holder also where the guard is false, so between
-- this statement and add_jobs nobody can take, change or free the key.
create or replace function :SCHEMA.add_job(
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
  v_one_snapshot constant boolean := current_setting('transaction_isolation') <> 'read committed';
  v_flags jsonb;
  v_lost boolean;
  v_told text;
begin
  if job_key_mode not in ('replace', 'preserve_run_at', 'unsafe_dedupe') then
    raise exception using
      errcode = 'GWBKM',
      message = format('add_job: job_key_mode is %L', job_key_mode),
      hint = 'It must be ''replace'', ''preserve_run_at'' or ''unsafe_dedupe''.';
  end if;
  if identifier is null then
    raise not_null_violation using message = 'add_job: identifier is null';
  end if;
  if v_one_snapshot then
    perform :SCHEMA.django_ensure_names(array[identifier], array[queue_name]);
  end if;
  -- Not a subquery of the inserts: it would be set up for every call, also for those without flags.
  if flags is not null then
    v_flags := (select jsonb_object_agg(flag.name, true) from unnest(add_job.flags) as flag(name));
  end if;

  if job_key is null or job_key_mode is distinct from 'unsafe_dedupe' then
    insert into :SCHEMA._private_jobs as job
      (job_queue_id, task_id, payload, run_at, max_attempts, key, priority, flags)
    select
      queue.id, task.id, coalesce(add_job.payload, '{}'::json), coalesce(add_job.run_at, now()),
      coalesce(add_job.max_attempts, 25)::smallint, add_job.job_key,
      coalesce(add_job.priority, 0)::smallint, v_flags
    from :SCHEMA._private_tasks as task
    left join :SCHEMA._private_job_queues as queue on queue.queue_name = add_job.queue_name
    where task.identifier = add_job.identifier
      and (add_job.queue_name is null or queue.id is not null)
    on conflict (key) do update set
      job_queue_id = excluded.job_queue_id,
      task_id = excluded.task_id,
      payload = :SCHEMA.django_merge_payloads(job.payload, excluded.payload),
      run_at = case
        when add_job.job_key_mode = 'preserve_run_at' and job.attempts = 0 then job.run_at
        else excluded.run_at
      end,
      max_attempts = excluded.max_attempts,
      priority = excluded.priority,
      flags = excluded.flags,
      revision = job.revision + 1,
      attempts = 0,
      last_error = null,
      updated_at = now()
    where job.is_available
    returning job.* into v_job;

    if v_job.id is null then
      select added.* into v_job from :SCHEMA.add_jobs(
        array[cast(row(
          identifier, payload, queue_name, run_at, max_attempts, job_key, priority, flags
        ) as :SCHEMA.job_spec)],
        coalesce(job_key_mode = 'preserve_run_at', false)
      ) as added;
      return v_job;
    end if;
  else
    -- A name can be collected by somebody's cleanup right after it was made: try again, bounded.
    for v_try in 1 .. 4 loop
      insert into :SCHEMA._private_jobs as job
        (job_queue_id, task_id, payload, run_at, max_attempts, key, priority, flags)
      select
        queue.id, task.id, coalesce(add_job.payload, '{}'::json), coalesce(add_job.run_at, now()),
        coalesce(add_job.max_attempts, 25)::smallint, add_job.job_key,
        coalesce(add_job.priority, 0)::smallint, v_flags
      from :SCHEMA._private_tasks as task
      left join :SCHEMA._private_job_queues as queue on queue.queue_name = add_job.queue_name
      where task.identifier = add_job.identifier
        and (add_job.queue_name is null or queue.id is not null)
      on conflict (key) do update set
        revision = job.revision + 1,
        updated_at = now()
      returning job.* into v_job;
      exit when v_job.id is not null;
      perform :SCHEMA.django_ensure_names(array[identifier], array[queue_name]);
    end loop;
    if v_job.id is null then
      raise exception using
        errcode = 'GWBNR',
        message = format('add_job: no row was stored for job_key %L', job_key),
        hint = 'Does a trigger on the jobs table suppress rows?';
    end if;
    if v_job.revision > 0 then
      return v_job;
    end if;
  end if;

  -- The statement may have waited for the key, and a name that it had found been collected. Two
  -- plain lookups: one condition with subqueries costs 65 us more, and 25 us where no key is given.
  if job_key is not null or v_one_snapshot then
    perform from :SCHEMA._private_tasks as task where task.id = v_job.task_id;
    v_lost := not found;
    if v_job.job_queue_id is not null then
      perform from :SCHEMA._private_job_queues as queue where queue.id = v_job.job_queue_id;
      v_lost := v_lost or not found;
    end if;
    if v_lost or v_one_snapshot then
      perform :SCHEMA.django_restore_names(
        array[v_job.task_id], array[identifier], array[v_job.job_queue_id], array[queue_name]);
      select job.* into v_job from :SCHEMA._private_jobs as job where job.id = v_job.id;
    end if;
  end if;

  -- Assigned and not performed, which would be a statement of its own.
  v_told := pg_notify('jobs:insert', '{"r":' || random() || ',"count":1}')::text;
  return v_job;
end
$$;
