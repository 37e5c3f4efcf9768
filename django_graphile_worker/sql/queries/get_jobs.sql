-- Take due jobs for this worker: up to `slots` that begin at once, and up to `room` jobs in all.
-- Locks the named queues first, then the jobs, all of them with skip locked: waits for nobody.
-- Returns the jobs taken, the most urgent first.
--
-- A job with a key or a queue is never taken beyond the free slots. While it waited for a slot,
-- each new request for its key would supersede it, and its queue would stand still. So what is
-- taken ahead ends where the first such job stands in the line: a busy worker then takes nothing
-- ahead, its slots run free, and that job gets one of them.
--
-- Ids are used throughout, never ctid: a row that changed after this statement began keeps its id,
-- and its new version is checked again when it is locked, queue and all.
with
served as materialized (
  -- Looked up each time, so that a task row that is collected and made again needs no restart.
  select task.id
  from :SCHEMA._private_tasks as task
  where task.identifier = any (%(identifiers)s::text[])
),
line as materialized (
  -- A scalar subquery, not a join: the planner would read every queue there is.
  select
    job.id, job.job_queue_id, job.priority, job.run_at,
    (job.key is not null or job.job_queue_id is not null) as begins_at_once
  from :SCHEMA._private_jobs as job
  where job.is_available = true
    and job.run_at <= coalesce(%(now)s::timestamptz, now())
    and job.task_id = any (array(select served.id from served))
    and case
      when job.job_queue_id is null then true
      else (
        select queue.is_available
        from :SCHEMA._private_job_queues as queue
        where queue.id = job.job_queue_id
      )
    end
  order by job.priority, job.run_at
  limit %(room)s::int
),
ranked as materialized (
  -- One job of each queue.
  select
    candidate.id, candidate.job_queue_id, candidate.begins_at_once,
    row_number() over (order by candidate.priority, candidate.run_at, candidate.id) as place
  from (
    (
      select distinct on (line.job_queue_id) line.*
      from line
      where line.job_queue_id is not null
      order by line.job_queue_id, line.priority, line.run_at, line.id
    )
    union all
    select line.* from line where line.job_queue_id is null
  ) as candidate
),
heads as materialized (
  select ranked.id, ranked.job_queue_id
  from ranked
  where ranked.job_queue_id is not null and ranked.place <= %(slots)s::int
),
free_queues as materialized (
  -- The queue before its job: whoever locked a later job first could otherwise win the queue.
  select queue.id
  from :SCHEMA._private_job_queues as queue
  where queue.id = any (array(select heads.job_queue_id from heads)) and queue.is_available
  for update skip locked
),
queued as materialized (
  select job.id
  from heads
  join free_queues on free_queues.id = heads.job_queue_id
  join :SCHEMA._private_jobs as job
    on job.id = heads.id and job.job_queue_id = free_queues.id
  where job.is_available = true
    and job.run_at <= coalesce(%(now)s::timestamptz, now())
    and job.task_id = any (array(select served.id from served))
  for update of job skip locked
),
unqueued as materialized (
  select job.id
  from :SCHEMA._private_jobs as job
  where job.is_available = true
    and job.job_queue_id is null
    and job.run_at <= coalesce(%(now)s::timestamptz, now())
    and job.task_id = any (array(select served.id from served))
  order by job.priority, job.run_at
  limit greatest(0, %(slots)s::int - (select count(*) from queued))
  for update skip locked
),
ahead as materialized (
  select job.id
  from :SCHEMA._private_jobs as job
  where job.is_available = true
    and job.job_queue_id is null
    and job.key is null
    and job.run_at <= coalesce(%(now)s::timestamptz, now())
    and job.task_id = any (array(select served.id from served))
    and job.id <> all (array(select unqueued.id from unqueued))
  order by job.priority, job.run_at
  limit (
    select -%(slots)s::int + coalesce(
      min(ranked.place) filter (where ranked.begins_at_once and ranked.place > %(slots)s::int) - 1,
      %(room)s::int
    )
    from ranked
  )
  for update skip locked
),
taken as (
  update :SCHEMA._private_jobs as job
  set attempts = job.attempts + 1, locked_by = %(worker_id)s, locked_at = now()
  where job.id = any (array(
    select queued.id from queued
    union all select unqueued.id from unqueued
    union all select ahead.id from ahead
  ))
  returning job.*
),
taken_queues as (
  -- From what was really taken, never from what had only been chosen.
  update :SCHEMA._private_job_queues as queue
  set locked_by = %(worker_id)s, locked_at = now()
  where queue.id = any (array(
    select taken.job_queue_id from taken where taken.job_queue_id is not null
  ))
)
-- A date that Python cannot hold must not spoil the batch.
select
  taken.id, task.identifier, taken.payload::text, taken.key, taken.job_queue_id, taken.attempts,
  taken.max_attempts, taken.priority, greatest(taken.run_at, '0001-01-03 00:00+00'),
  least(greatest(taken.created_at, '0001-01-03 00:00+00'), '9999-12-29 00:00+00'),
  taken.revision,
  case
    when jsonb_typeof(taken.flags) = 'object' then array(select jsonb_object_keys(taken.flags))
  end,
  taken.locked_at, taken.locked_by
from taken
join :SCHEMA._private_tasks as task on task.id = taken.task_id
order by taken.priority, taken.run_at, taken.id
