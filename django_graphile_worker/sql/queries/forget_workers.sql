-- Delete the rows of workers that have been dead for ten minutes and have nothing locked any more,
-- and the true starts of renewed locks that are gone. Locks both with skip locked: waits for
-- nobody. Returns how many workers are forgotten.
with
dead as materialized (
  select worker.worker_id
  from :SCHEMA.django_workers as worker
  where worker.dead_at < now() - interval '10 minutes'
    and not exists (
      select
      from :SCHEMA._private_jobs as job
      where job.is_available = false
        and job.locked_at is not null
        and job.locked_by = worker.worker_id
    )
    and not exists (
      select
      from :SCHEMA._private_job_queues as queue
      where queue.is_available = false and queue.locked_by = worker.worker_id
    )
  for update skip locked
),
forgotten as (
  delete from :SCHEMA.django_workers as worker
  where worker.worker_id = any (array(select dead.worker_id from dead))
  returning worker.worker_id
),
ended as materialized (
  select renewed.job_id
  from :SCHEMA.django_renewed_locks as renewed
  where not exists (
      select
      from :SCHEMA._private_jobs as job
      where job.id = renewed.job_id and job.locked_at = renewed.locked_at
    )
    and not exists (
      -- A job may be gone, deleted by hand, while its worker still has the queue.
      select
      from :SCHEMA._private_job_queues as queue
      where queue.id = renewed.queue_id and queue.locked_at = renewed.locked_at
    )
  for update skip locked
),
cleared as (
  delete from :SCHEMA.django_renewed_locks as renewed
  where renewed.job_id = any (array(select ended.job_id from ended))
)
select count(*) from forgotten
