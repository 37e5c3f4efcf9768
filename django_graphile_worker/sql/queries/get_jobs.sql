-- Take due jobs for this worker: up to `slots` that begin at once, and up to `room` jobs in all.
-- Locks jobs without queue, then named queues, then their jobs, all with skip locked: waits for
-- nobody. Returns the jobs taken, the most urgent first. Follows one of the two forms of `line`.
--
-- A job with a key or a queue is never taken beyond the free slots. While it waited for a slot,
-- each new request for its key would supersede it, and its queue would stand still. So what is
-- taken ahead ends where the first such job stands in the line: a busy worker then takes nothing
-- ahead, its slots run free, and that job gets one of them.
--
-- Whoever is written down as dead takes nothing. If that is written while this runs, what is taken
-- here is locked by a name that never comes back, and the next sweep frees it.
queue_walk (queue_id, first_id, steps) as (
  -- From queue to queue along those that have jobs, at most 200 of them, beginning anywhere and
  -- round once: with thousands of queues (one for each customer, say) a fetch stays short.
  select coalesce(
    (
      select job.job_queue_id
      from :SCHEMA._private_jobs as job
      where job.is_available = true
        and job.job_queue_id is not null
        and job.job_queue_id >= (
          select (random() * last.job_queue_id)::int
          from :SCHEMA._private_jobs as last
          where last.is_available = true and last.job_queue_id is not null
          order by last.job_queue_id desc
          limit 1
        )
      order by job.job_queue_id
      limit 1
    ),
    0
  ), null::int, 1
  where exists (select from me)
  union all
  select following.queue_id, coalesce(queue_walk.first_id, queue_walk.queue_id), queue_walk.steps + 1
  from queue_walk
  cross join lateral (
    select coalesce(
      (
        select job.job_queue_id
        from :SCHEMA._private_jobs as job
        where job.is_available = true and job.job_queue_id > queue_walk.queue_id
        order by job.job_queue_id
        limit 1
      ),
      (
        select job.job_queue_id
        from :SCHEMA._private_jobs as job
        where job.is_available = true and job.job_queue_id is not null
        order by job.job_queue_id
        limit 1
      )
    ) as queue_id
  ) as following
  where queue_walk.queue_id > 0
    and queue_walk.steps < 200
    and following.queue_id <> coalesce(queue_walk.first_id, queue_walk.queue_id)
),
heads as materialized (
  -- Of each free queue the first job. The limits keep the planner from reading whole tables.
  select head.id, queue_walk.queue_id, head.priority, head.run_at
  from queue_walk
  cross join lateral (
    select
    from :SCHEMA._private_job_queues as queue
    where queue.id = queue_walk.queue_id and queue.is_available
    limit 1
  ) as free
  cross join lateral (
    select job.id, job.priority, job.run_at
    from :SCHEMA._private_jobs as job
    where job.is_available = true
      and job.job_queue_id = queue_walk.queue_id
      and job.run_at <= coalesce(%(now)s::timestamptz, now())
      and job.task_id = any (array(select served.id from served))
      and (job.flags is null or not job.flags ?| %(forbidden_flags)s::text[])
    order by job.priority, job.run_at
    limit 1
  ) as head
  where queue_walk.queue_id > 0
  order by head.priority, head.run_at
  limit %(slots)s::int + 1
),
ranked as materialized (
  select
    candidate.*, row_number() over (order by candidate.priority, candidate.run_at, candidate.id) as rank
  from (
    select
      heads.id, null::tid as place, heads.queue_id, true as begins_at_once,
      heads.priority, heads.run_at
    from heads
    union all
    select line.id, line.place, null, line.has_key, line.priority, line.run_at from line
  ) as candidate
),
chosen as materialized (
  select ranked.id, ranked.place, ranked.queue_id
  from ranked
  where ranked.rank <= (
    select least(
      %(room)s::int,
      min(barrier.rank) filter (where barrier.begins_at_once and barrier.rank > %(slots)s::int) - 1
    )
    from ranked as barrier
  )
),
free_queues as materialized (
  -- The queue before its job: whoever locked a later job first could otherwise win the queue.
  select queue.id
  from :SCHEMA._private_job_queues as queue
  where queue.id = any (array(
      select chosen.queue_id from chosen where chosen.queue_id is not null
    ))
    and queue.is_available
  for update skip locked
),
queued as materialized (
  select job.ctid as place
  from chosen
  join free_queues on free_queues.id = chosen.queue_id
  join :SCHEMA._private_jobs as job
    on job.id = chosen.id and job.job_queue_id = free_queues.id
  where job.is_available = true
    and job.run_at <= coalesce(%(now)s::timestamptz, now())
    and job.task_id = any (array(select served.id from served))
    and (job.flags is null or not job.flags ?| %(forbidden_flags)s::text[])
  for update of job skip locked
),
taken as (
  -- By place, which takes a third off it. A row that was changed between this statement's
  -- beginning and its lock is not found so: it waits for the next fetch.
  update :SCHEMA._private_jobs as job
  set attempts = job.attempts + 1, locked_by = %(worker_id)s, locked_at = now()
  where job.ctid = any (array(
    select chosen.place from chosen where chosen.queue_id is null
    union all
    select queued.place from queued
  ))
  returning job.*
),
unflushed as materialized (
  -- Lost in a crash of the server, a lock on a job without queue means that it runs once more,
  -- which it does anyway: its worker has lost it. So the commit need not wait for the disk.
  select set_config('synchronous_commit', 'off', true)
  where not exists (select from queued)
),
taken_queues as (
  -- From what was really taken, never from what had only been chosen.
  update :SCHEMA._private_job_queues as queue
  set locked_by = %(worker_id)s, locked_at = now()
  where queue.id = any (array(
    select taken.job_queue_id from taken where taken.job_queue_id is not null
  ))
)
-- Times as seconds since 1970: three dates made in Python were most of what reading a job cost.
select
  taken.id, served.identifier, taken.payload::text, taken.key, taken.job_queue_id, taken.attempts,
  taken.max_attempts, taken.priority, date_part('epoch', taken.run_at),
  date_part('epoch', taken.created_at), taken.revision,
  case
    when jsonb_typeof(taken.flags) = 'object' then array(select jsonb_object_keys(taken.flags))
  end,
  case when taken.job_queue_id is not null then taken.locked_at end, taken.locked_by
from taken
join served on served.id = taken.task_id
where (select count(*) from unflushed) >= 0
order by taken.priority, taken.run_at, taken.id
