-- Store specs in the fault's way; returns the rows stored, which may be fewer than there are specs.
--
-- The fault lies between the last two statements: a worker can lock a key's holder after the first
-- of them has looked, and the second then neither inserts nor updates. A name that is collected
-- after it was made drops its spec, or the job's queue.
create function :BESIDE.store(specs :SCHEMA.job_spec[], preserve_run_at boolean)
returns setof :SCHEMA._private_jobs
language plpgsql volatile as $$
begin
  insert into :SCHEMA._private_tasks (identifier)
  select spec.identifier from unnest(specs) as spec
  on conflict (identifier) do nothing;

  insert into :SCHEMA._private_job_queues (queue_name)
  select spec.queue_name from unnest(specs) as spec where spec.queue_name is not null
  on conflict (queue_name) do nothing;

  update :SCHEMA._private_jobs as job
  set key = null, attempts = job.max_attempts, updated_at = now()
  from unnest(specs) as spec
  where job.key = spec.job_key and not job.is_available;

  return query
  insert into :SCHEMA._private_jobs as job
    (job_queue_id, task_id, payload, run_at, max_attempts, key, priority, flags)
  select
    queue.id, task.id, coalesce(spec.payload, '{}'::json), coalesce(spec.run_at, now()),
    coalesce(spec.max_attempts, 25), spec.job_key, coalesce(spec.priority, 0),
    (select jsonb_object_agg(flag.name, true) from unnest(spec.flags) as flag(name))
  from unnest(specs) with ordinality as spec(
    identifier, payload, queue_name, run_at, max_attempts, job_key, priority, flags, position)
  join :SCHEMA._private_tasks as task on task.identifier = spec.identifier
  left join :SCHEMA._private_job_queues as queue on queue.queue_name = spec.queue_name
  order by spec.position
  on conflict (key) do update set
    job_queue_id = excluded.job_queue_id,
    task_id = excluded.task_id,
    payload = case
      when json_typeof(job.payload) = 'array' and json_typeof(excluded.payload) = 'array'
      then (job.payload::jsonb || excluded.payload::jsonb)::json
      else excluded.payload
    end,
    run_at = case when preserve_run_at and job.attempts = 0 then job.run_at else excluded.run_at end,
    max_attempts = excluded.max_attempts,
    priority = excluded.priority,
    flags = excluded.flags,
    revision = job.revision + 1,
    attempts = 0,
    last_error = null,
    updated_at = now()
  where job.locked_at is null
  returning job.*;

  perform pg_notify('jobs:insert', '{"r":' || random() || ',"count":' || cardinality(specs) || '}');
end
$$;
