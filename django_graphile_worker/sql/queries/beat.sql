-- Tell that workers live, and renew those of their locks that Node would soon call stale. Locks the
-- workers' rows, then named queues and jobs with skip locked: waits only for whoever declares one
-- of these workers dead at this moment. Returns the names of those that do live.
--
-- A silence of more than two heartbeats, a database that was away for instance, begins a worker's
-- watch anew: it cannot tell then whether the others were dead or unheard.
with
beaten as (
  update :SCHEMA.django_workers as worker
  set
    last_beat_at = now(),
    watching_since = case
      when worker.last_beat_at >= now() - 2 * worker.heartbeat then worker.watching_since
      else now()
    end
  where worker.worker_id = any (%(worker_ids)s::text[]) and worker.dead_at is null
  returning worker.worker_id
),
old as materialized (
  select job.id, job.job_queue_id, job.locked_by, job.locked_at
  from :SCHEMA._private_jobs as job
  where job.is_available = false
    and job.locked_at < now() - interval '3 hours'
    and job.locked_by = any (array(select beaten.worker_id from beaten))
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
  -- A job and its queue together, or neither of them: the next heartbeat comes soon.
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
select beaten.worker_id from beaten
