-- Tell whether a due job is there to be taken, row locks of others aside. Locks nothing.
-- Returns one boolean.
select exists (
  select
  from :SCHEMA._private_jobs as job
  where job.is_available = true
    and job.run_at <= coalesce(%(now)s::timestamptz, now())
    and job.task_id = any (array(
      select task.id
      from :SCHEMA._private_tasks as task
      where task.identifier = any (%(identifiers)s::text[])
    ))
    and case
      when job.job_queue_id is null then true
      else (
        select queue.is_available
        from :SCHEMA._private_job_queues as queue
        where queue.id = job.job_queue_id
      )
    end
)
