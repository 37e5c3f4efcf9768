-- Note the errors of jobs of this worker that have failed, and let them run again later.
-- Locks them with skip locked: waits for nobody. Returns what complete_jobs returns.
--
-- A job without attempts left stays as it is then: permanently failed. That is also what becomes
-- of a superseded one, whose attempts were used up for it.
with
mine as materialized (
  select job.id
  from :SCHEMA._private_jobs as job
  where job.id = any (%(ids)s::bigint[]) and job.locked_by = %(worker_id)s
  for update skip locked
),
failed as (
  update :SCHEMA._private_jobs as job
  set
    last_error = failure.error,
    run_at = greatest(now(), job.run_at) + exp(least(job.attempts, 10)) * interval '1 second',
    locked_by = null,
    locked_at = null
  from unnest(%(ids)s::bigint[], %(errors)s::text[]) as failure(id, error)
  where job.id = failure.id and job.id = any (array(select mine.id from mine))
  returning job.id, job.key
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
