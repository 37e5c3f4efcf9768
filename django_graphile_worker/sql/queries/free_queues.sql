-- Free named queues of this worker whose job has ended. Locks them with skip locked: waits for
-- nobody. Returns the ids of those that it holds still: to be tried again.
--
-- The time of the lock tells one fetch from the next: a queue that this worker has taken again for
-- another job stays locked. A lock that was renewed, since it was three hours old, is told by its
-- record. Whoever is written down as dead frees nothing.
with
held as materialized (
  select queue.id, queue.locked_at
  from unnest(%(ids)s::int[], %(job_ids)s::bigint[], %(locked_at)s::timestamptz[])
    as lock (id, job_id, locked_at)
  join :SCHEMA._private_job_queues as queue on queue.id = lock.id
  where queue.locked_by = %(worker_id)s
    and (
      queue.locked_at = lock.locked_at
      or exists (
        select
        from :SCHEMA.django_renewed_locks as renewed
        where renewed.job_id = lock.job_id
          and renewed.worker_id = %(worker_id)s
          and renewed.locked_at = queue.locked_at
      )
    )
    and exists (
      select
      from :SCHEMA.django_workers as worker
      where worker.worker_id = %(worker_id)s and worker.dead_at is null
    )
),
mine as materialized (
  select queue.id
  from :SCHEMA._private_job_queues as queue
  where queue.id = any (array(select held.id from held))
    and queue.locked_by = %(worker_id)s
    -- Looked at again under the lock: the same time still, or it is another fetch's.
    and queue.locked_at = any (array(select held.locked_at from held))
  for update skip locked
),
freed as (
  update :SCHEMA._private_job_queues as queue
  set locked_by = null, locked_at = null
  where queue.id = any (array(select mine.id from mine))
  returning queue.id
)
select held.id
from held
where held.id <> all (array(select freed.id from freed))
