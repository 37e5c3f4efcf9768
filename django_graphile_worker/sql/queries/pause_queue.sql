-- Let nobody take a job of a named queue. Locks its row, waiting for whoever has it (a fetch or a
-- completion). Returns whether it was not paused before; no row where there is no such queue.
--
-- The queue itself is locked for a holder that is no worker, until a time that nobody sees: no sweep
-- for old locks frees it. Not for ever, since readers in several languages fail at `infinity`.
-- Whoever runs a job of it goes on; its completion frees the queue by its own name, so not this one.
with found as materialized (
  select queue.id, queue.locked_by
  from :SCHEMA._private_job_queues as queue
  where queue.queue_name = %(queue_name)s
  for update
)
update :SCHEMA._private_job_queues as queue
set locked_by = %(paused)s, locked_at = '9999-01-01 00:00+00'
from found
where queue.id = found.id
returning found.locked_by is distinct from %(paused)s
