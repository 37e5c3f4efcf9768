-- Tell which of these jobs this worker still has locked, while it counts as alive. Locks nothing.
-- Returns their ids.
select job.id
from :SCHEMA._private_jobs as job
where job.id = any (%(ids)s::bigint[])
  and job.locked_by = %(worker_id)s
  and exists (
    select
    from :SCHEMA.django_workers as worker
    where worker.worker_id = %(worker_id)s and worker.dead_at is null
  )
