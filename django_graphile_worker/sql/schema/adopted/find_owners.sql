-- Name those that hold jobs and are none of our workers; not where the lock has lapsed. Locks nothing.
select distinct job.locked_by
from :SCHEMA._private_jobs as job
where job.is_available = false
  and job.locked_at > now() - interval '4 hours' and job.locked_by is not null
  and not exists (
    select from :SCHEMA.django_workers as worker where worker.worker_id = job.locked_by
  )
order by 1
