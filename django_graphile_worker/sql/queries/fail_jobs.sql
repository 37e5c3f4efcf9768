-- Note the errors of jobs of this worker that have failed, and let them run again later.
-- Locks them with skip locked: waits for nobody. Returns what complete_jobs returns.
--
-- `delays` are seconds from now; null is the queue's own backoff. `payloads` are what is left of
-- batches; null changes nothing. A job without attempts left, or whose failure is `permanent`,
-- stays as it is then: permanently failed. That is also what becomes of a superseded one, whose
-- attempts were used up for it. Each failed attempt leaves a row in the history.
with
failure as materialized (
  select *
  from unnest(
    %(ids)s::bigint[], %(errors)s::text[], %(delays)s::float8[], %(permanent)s::boolean[],
    %(payloads)s::text[]
  ) as given (id, error, delay, permanent, payload)
),
mine as materialized (
  select job.id, job.attempts, job.max_attempts, job.task_id, job.locked_at
  from :SCHEMA._private_jobs as job
  where job.id = any (%(ids)s::bigint[])
    and job.locked_by = %(worker_id)s
    and exists (
      select
      from :SCHEMA.django_workers as worker
      where worker.worker_id = %(worker_id)s and worker.dead_at is null
    )
  for update skip locked
),
failed as (
  update :SCHEMA._private_jobs as job
  set
    last_error = failure.error,
    attempts = case when failure.permanent then job.max_attempts else job.attempts end,
    payload = coalesce(failure.payload::json, job.payload),
    run_at = case
      when failure.delay is null
        then greatest(now(), job.run_at) + exp(least(job.attempts, 10)) * interval '1 second'
      else now() + failure.delay * interval '1 second'
    end,
    locked_by = null,
    locked_at = null
  from failure
  where job.id = failure.id and job.id = any (array(select mine.id from mine))
  returning job.id, job.key
),
history as (
  insert into :SCHEMA.django_job_errors (
    job_id, task_identifier, attempt, max_attempts, error, worker_id, locked_at
  )
  select
    mine.id, coalesce(task.identifier, ''), mine.attempts, mine.max_attempts, failure.error,
    %(worker_id)s, mine.locked_at
  from failed
  join mine on mine.id = failed.id
  join failure on failure.id = failed.id
  left join :SCHEMA._private_tasks as task on task.id = mine.task_id
)
select
  (select count(*) from failed),
  case
    when (select count(*) from failed) < cardinality(%(ids)s::bigint[])
      then array(select failed.id from failed)
  end,
  array(
    select failed.id
    from failed
    where failed.key is null and failed.id = any (%(keyed_ids)s::bigint[])
  )
