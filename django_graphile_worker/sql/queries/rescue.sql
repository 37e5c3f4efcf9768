-- Declare silent workers dead, and free the jobs and named queues of the dead. Locks the workers'
-- rows, then jobs and queues, all of them with skip locked: waits for nobody, and what is missed is
-- freed by the next sweep. Returns who was declared dead, whose locks were freed, and how many jobs
-- and queues that were, and how many of the jobs have failed permanently by it.
--
-- Whether a worker is silent is looked at again once its row is locked, so a heartbeat that comes
-- first keeps it alive, and one that comes later finds that it is dead. The one who sweeps must
-- have watched for as long as it asks others to be heard: after an outage everybody is silent.
--
-- A name that is dead is so for ever. A fetch under that name may still be on its way: the row
-- stays for that (see forget_workers), and what is locked later is freed by a later sweep.
with
me as materialized (
  select worker.worker_id, 3 * worker.heartbeat as least_silence, worker.watching_since
  from :SCHEMA.django_workers as worker
  -- Not between an outage and its own first heartbeat: its watch has not begun anew then.
  where worker.worker_id = %(by)s
    and worker.dead_at is null
    and worker.last_beat_at >= now() - 2 * worker.heartbeat
),
silent as materialized (
  select worker.worker_id
  from :SCHEMA.django_workers as worker
  where worker.dead_at is null
    and (
      worker.worker_id = any (%(worker_ids)s::text[])
      or worker.worker_id <> (select me.worker_id from me)
      and worker.last_beat_at
        < now() - greatest(worker.stale_after, (select me.least_silence from me))
      and (select me.watching_since from me)
        < now() - greatest(worker.stale_after, (select me.least_silence from me))
    )
  for update skip locked
),
declared as (
  update :SCHEMA.django_workers as worker
  set dead_at = now()
  where worker.worker_id = any (array(select silent.worker_id from silent))
  returning worker.worker_id
),
dead as materialized (
  select declared.worker_id from declared
  union all
  select worker.worker_id from :SCHEMA.django_workers as worker where worker.dead_at is not null
),
-- Nearly always there is nothing to be looked for; then no locked row is read at all.
due as materialized (
  select exists (select from dead) or %(orphans)s::bool or %(foreign)s::bool as now
),
locks as materialized (
  select
    job.id, job.key, job.attempts, job.locked_by, job.locked_at,
    case
      when job.locked_by = any (array(select dead.worker_id from dead)) then 'dead'
      when starts_with(job.locked_by, 'django:') then 'orphan'
      else 'foreign'
    end as owner
  from :SCHEMA._private_jobs as job
  where (select due.now from due)
    and job.is_available = false
    and job.locked_at is not null
    and (
      job.locked_by = any (array(select dead.worker_id from dead))
      or %(orphans)s::bool
      and starts_with(job.locked_by, 'django:')
      and job.locked_at < now() - interval '1 minute'
      and not exists (
        select from :SCHEMA.django_workers as worker where worker.worker_id = job.locked_by
      )
      or %(foreign)s::bool
      and not starts_with(coalesce(job.locked_by, ''), 'django:')
      and job.locked_at < now() - interval '4 hours'
    )
  order by job.locked_at
  limit %(most)s::int
),
mine as materialized (
  -- One that was superseded since this statement began is left for the next: the record of that
  -- cannot be seen from here.
  select
    job.id, job.task_id, job.attempts, job.max_attempts, locks.owner, locks.locked_by,
    coalesce(renewed.taken_at, locks.locked_at) as taken_at,
    conflict.id as conflict_id,
    conflict.superseded_attempts,
    -- Its items are in no other job, so a batch that was superseded gets one more run, if it has
    -- any left; of the others the successor carries the newer state.
    conflict.superseded_attempts < job.max_attempts
      and json_typeof(job.payload) = 'array' as runs_again
  from locks
  join :SCHEMA._private_jobs as job
    on job.id = locks.id
    and job.locked_by is not distinct from locks.locked_by
    and job.locked_at = locks.locked_at
    and job.key is not distinct from locks.key
    and job.attempts = locks.attempts
  left join lateral (
    select record.id, record.superseded_attempts
    from :SCHEMA.django_key_conflicts as record
    where record.superseded_job_id = locks.id
      and record.outcome is null
      and locks.key is null
    limit 1
  ) as conflict on true
  left join :SCHEMA.django_renewed_locks as renewed
    on renewed.job_id = locks.id
    and renewed.worker_id = locks.locked_by
    and renewed.locked_at = locks.locked_at
  for update of job skip locked
),
ended as materialized (
  select
    mine.*,
    coalesce(mine.runs_again, false) as again,
    coalesce(least(mine.superseded_attempts, mine.attempts), mine.attempts) as attempt,
    format(
      case mine.owner
        when 'foreign' then
          'WorkerDied: the worker %%s had this job for more than four hours and did not end it.'
        when 'orphan' then
          'WorkerDied: the worker %%s is not known any more, and had not ended this job.'
        else 'WorkerDied: the worker %%s died before it had ended this job.'
      end,
      coalesce(mine.locked_by, '(unknown)')
    ) as error
  from mine
),
freed as (
  update :SCHEMA._private_jobs as job
  set
    attempts = case when ended.again then job.max_attempts - 1 else job.attempts end,
    last_error = case
      when ended.owner = 'foreign' and job.attempts < job.max_attempts then job.last_error
      else ended.error
    end,
    run_at = greatest(now(), job.run_at) + case
      when ended.owner = 'foreign' then interval '0'
      else exp(least(ended.attempt, 10)) * interval '1 second'
    end,
    locked_by = null,
    locked_at = null
  from ended
  where job.id = ended.id
  returning job.id, job.attempts >= job.max_attempts as failed
),
history as (
  insert into :SCHEMA.django_job_errors (
    job_id, task_identifier, attempt, max_attempts, error, worker_id, locked_at
  )
  select
    ended.id, coalesce(task.identifier, '?'), ended.attempt, ended.max_attempts, ended.error,
    ended.locked_by, ended.taken_at
  from ended
  join freed on freed.id = ended.id
  left join :SCHEMA._private_tasks as task on task.id = ended.task_id
),
my_records as materialized (
  select conflict.id, ended.again
  from ended
  join freed on freed.id = ended.id
  join :SCHEMA.django_key_conflicts as conflict
    on conflict.id = ended.conflict_id and conflict.outcome is null
  for update of conflict skip locked
),
finished as (
  update :SCHEMA.django_key_conflicts as conflict
  set outcome = case when my_records.again then 'returned' else 'failed' end, finished_at = now()
  from my_records
  where conflict.id = my_records.id
),
my_queues as materialized (
  select queue.id
  from :SCHEMA._private_job_queues as queue
  where (select due.now from due)
    and queue.is_available = false
    and (
      queue.locked_by = any (array(select dead.worker_id from dead))
      or %(orphans)s::bool
      and starts_with(queue.locked_by, 'django:')
      and queue.locked_at < now() - interval '1 minute'
      and not exists (
        select from :SCHEMA.django_workers as worker where worker.worker_id = queue.locked_by
      )
      or %(foreign)s::bool
      and not starts_with(coalesce(queue.locked_by, ''), 'django:')
      and queue.locked_at < now() - interval '4 hours'
    )
  for update skip locked
),
freed_queues as (
  update :SCHEMA._private_job_queues as queue
  set locked_by = null, locked_at = null
  where queue.id = any (array(select my_queues.id from my_queues))
  returning queue.id
)
select
  array(select declared.worker_id from declared),
  array(
    select distinct coalesce(ended.locked_by, '') from ended join freed on freed.id = ended.id
  ),
  (select count(*) from freed),
  (select count(*) from freed_queues),
  (select count(*) from freed where freed.failed)
