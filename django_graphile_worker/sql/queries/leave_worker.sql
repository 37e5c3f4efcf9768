-- Take down a worker that has ended: its row goes or, where something is still locked by its name,
-- it counts as dead, so that the others free that at once. Locks its row. Returns whether the row
-- went.
with
held as materialized (
  select exists (
    select
    from :SCHEMA._private_jobs as job
    where job.is_available = false
      and job.locked_at is not null
      and job.locked_by = %(worker_id)s
  ) or exists (
    select
    from :SCHEMA._private_job_queues as queue
    where queue.is_available = false and queue.locked_by = %(worker_id)s
  ) as something
),
gone as (
  delete from :SCHEMA.django_workers as worker
  where worker.worker_id = %(worker_id)s
    and worker.dead_at is null
    and not (select held.something from held)
  returning worker.worker_id
),
left_behind as (
  update :SCHEMA.django_workers as worker
  set dead_at = now()
  where worker.worker_id = %(worker_id)s
    and worker.dead_at is null
    and (select held.something from held)
)
select exists (select from gone)
