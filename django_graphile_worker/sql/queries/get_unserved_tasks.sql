-- Find tasks of which jobs have been due for a minute, but for those in `identifiers`.
-- Locks nothing. Returns their identifiers, twenty at most.
--
-- One probe for each task along its own index, however many jobs wait.
select task.identifier
from :SCHEMA._private_tasks as task
where task.identifier <> all (%(identifiers)s::text[])
  and exists (
    select
    from :SCHEMA._private_jobs as job
    where job.is_available = true
      and job.job_queue_id is null
      and job.task_id = task.id
      and job.run_at <= now() - interval '1 minute'
  )
order by task.identifier
limit 20
