-- Give back jobs of this worker that were never begun. Locks them with skip locked: waits for
-- nobody. Returns what complete_jobs returns; of those that had lost their key, apart, the ones
-- that will run once more.
--
-- A job superseded since it was taken has no attempts left. An array in its payload holds items
-- that nobody has worked on: it gets one run. Otherwise its successor carries the newer state and
-- it is done.
with
mine as materialized (
  select
    job.id,
    job.key is null and job.id = any (%(keyed_ids)s::bigint[]) as superseded,
    json_typeof(job.payload) = 'array' as has_items
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
completed as (
  delete from :SCHEMA._private_jobs as job
  where job.id = any (array(select mine.id from mine where mine.superseded and not mine.has_items))
  returning job.id
),
returned as (
  update :SCHEMA._private_jobs as job
  set
    attempts = case
      when mine.superseded then job.max_attempts - 1
      else greatest(0, job.attempts - 1)
    end,
    locked_by = null,
    locked_at = null
  from mine
  where job.id = mine.id and not (mine.superseded and not mine.has_items)
  returning job.id, mine.superseded
),
ended as (
  select completed.id from completed
  union all
  select returned.id from returned
)
select
  (select count(*) from ended),
  case
    when (select count(*) from ended) < cardinality(%(ids)s::bigint[])
      then array(select ended.id from ended)
  end,
  array(select completed.id from completed),
  array(select returned.id from returned where returned.superseded)
