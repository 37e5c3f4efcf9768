-- Free named queues of this worker whose job has ended. Locks them with skip locked: waits for
-- nobody. Returns the ids of those that it holds still: to be tried again.
--
-- The time of the lock tells one fetch from the next: a queue that this worker has taken again for
-- another job stays locked.
with
held as materialized (
  select queue.id
  from unnest(%(ids)s::int[], %(locked_at)s::timestamptz[]) as lock(id, locked_at)
  join :SCHEMA._private_job_queues as queue
    on queue.id = lock.id and queue.locked_at = lock.locked_at
  where queue.locked_by = %(worker_id)s
),
mine as materialized (
  select queue.id
  from :SCHEMA._private_job_queues as queue
  where queue.id = any (array(select held.id from held)) and queue.locked_by = %(worker_id)s
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
