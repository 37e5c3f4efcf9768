-- Have the row of a named queue for oneself. Locks it, waiting for whoever has it. Returns its id, and
-- whether it is paused; no row where there is none.
select queue.id, coalesce(queue.locked_by = %(paused)s, false)
from :SCHEMA._private_job_queues as queue
where queue.queue_name = %(queue_name)s
for update
