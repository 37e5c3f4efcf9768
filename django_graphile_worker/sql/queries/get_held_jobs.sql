-- Tell which of these jobs this worker still has locked. Locks nothing. Returns their ids.
select job.id
from :SCHEMA._private_jobs as job
where job.id = any (%(ids)s::bigint[]) and job.locked_by = %(worker_id)s
