-- Find jobs that this worker has locked without knowing it. Locks nothing.
-- Returns them as get_jobs would have.
--
-- When a connection breaks after the server has committed a fetch and before its answer came
-- through, the jobs are locked and nobody runs them. Asked by the only one who fetches, before it
-- fetches again, so what is unknown now cannot be on its way.
select
  job.id, task.identifier, job.payload::text,
  -- A key that was superseded since is still the key that it was taken with.
  coalesce(job.key, (
    select conflict.key
    from :SCHEMA.django_key_conflicts as conflict
    where conflict.superseded_job_id = job.id
    limit 1
  )),
  job.job_queue_id, job.attempts, job.max_attempts, job.priority,
  date_part('epoch', job.run_at), date_part('epoch', job.created_at), job.revision,
  case
    when jsonb_typeof(job.flags) = 'object' then array(select jsonb_object_keys(job.flags))
  end,
  case when job.job_queue_id is not null then job.locked_at end, job.locked_by
from :SCHEMA._private_jobs as job
join :SCHEMA._private_tasks as task on task.id = job.task_id
where job.is_available = false
  and job.locked_at is not null
  and job.locked_by = %(worker_id)s
  and job.id <> all (%(known_ids)s::bigint[])
order by job.priority, job.run_at, job.id
