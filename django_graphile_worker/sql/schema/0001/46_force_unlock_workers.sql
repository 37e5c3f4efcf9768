-- Free every job and every named queue that the given workers hold; for workers that are dead.
-- Returns nothing. Locks the jobs in byte order of their key, then by id; after them the queues by
-- id, as a Node worker's completing does. Ours locks with skip locked, so its order is free.
create or replace function :SCHEMA.force_unlock_workers(worker_ids text[]) returns void
language sql volatile as $$
  -- `is_available = false` lets the small index of locked rows serve this.
  with held as materialized (
    select job.id
    from :SCHEMA._private_jobs as job
    where job.is_available = false and job.locked_by = any (worker_ids)
    order by
      coalesce(job.key, :SCHEMA.django_former_key(job.id)) collate "C" nulls last, job.id
    for update
  )
  update :SCHEMA._private_jobs as job
  set locked_at = null, locked_by = null
  from held
  where job.id = held.id;

  with held as materialized (
    select queue.id
    from :SCHEMA._private_job_queues as queue
    where queue.locked_by = any (worker_ids)
    order by queue.id
    for update
  )
  update :SCHEMA._private_job_queues as queue
  set locked_at = null, locked_by = null
  from held
  where queue.id = held.id;
$$;
