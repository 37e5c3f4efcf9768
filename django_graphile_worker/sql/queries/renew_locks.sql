-- Renew those locks of live workers that Node would soon call stale: they are three hours old. Locks
-- named queues and jobs with skip locked: waits for nobody. Returns how many jobs' locks were renewed.
with
alive as materialized (
  select worker.worker_id
  from :SCHEMA.django_workers as worker
  where worker.worker_id = any (%(worker_ids)s::text[]) and worker.dead_at is null
),
old as materialized (
  select job.id, job.job_queue_id, job.locked_by, job.locked_at
  from :SCHEMA._private_jobs as job
  where job.is_available = false
    and job.locked_at < now() - interval '3 hours'
    and job.locked_by = any (array(select alive.worker_id from alive))
),
lanes as materialized (
  -- The queues that are locked for these jobs, and not again for later ones.
  select old.id as job_id, queue.id
  from old
  join :SCHEMA._private_job_queues as queue
    on queue.id = old.job_queue_id
    and queue.locked_by = old.locked_by
    and queue.locked_at = old.locked_at
),
my_queues as materialized (
  select queue.id, lanes.job_id
  from lanes
  join :SCHEMA._private_job_queues as queue on queue.id = lanes.id
  join old
    on old.id = lanes.job_id
    and queue.locked_by = old.locked_by
    and queue.locked_at = old.locked_at
  for update of queue skip locked
),
my_jobs as materialized (
  -- A job and its queue together, or neither of them: the next try comes soon.
  select job.id
  from old
  join :SCHEMA._private_jobs as job
    on job.id = old.id and job.locked_by = old.locked_by and job.locked_at = old.locked_at
  where old.id <> all (array(select lanes.job_id from lanes))
    or old.id = any (array(select my_queues.job_id from my_queues))
  for update of job skip locked
),
renewed_jobs as (
  update :SCHEMA._private_jobs as job
  set locked_at = now()
  where job.id = any (array(select my_jobs.id from my_jobs))
  returning job.id
),
renewed_queues as (
  update :SCHEMA._private_job_queues as queue
  set locked_at = now()
  where queue.id = any (array(
    select my_queues.id
    from my_queues
    where my_queues.job_id = any (array(select my_jobs.id from my_jobs))
  ))
),
noted as (
  -- The true start stays known: the completer frees a queue by the time of its fetch.
  insert into :SCHEMA.django_renewed_locks as known (
    job_id, queue_id, worker_id, taken_at, locked_at
  )
  select old.id, my_queues.id, old.locked_by, old.locked_at, now()
  from renewed_jobs
  join old on old.id = renewed_jobs.id
  left join my_queues on my_queues.job_id = old.id
  on conflict (job_id) do update
    set
      queue_id = excluded.queue_id,
      worker_id = excluded.worker_id,
      taken_at = case
        when known.worker_id = excluded.worker_id and known.locked_at = excluded.taken_at
          then known.taken_at
        else excluded.taken_at
      end,
      locked_at = excluded.locked_at
)
select count(*) from renewed_jobs
