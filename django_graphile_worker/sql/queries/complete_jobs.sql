-- Delete jobs of this worker that have succeeded. Locks them with skip locked: waits for nobody.
-- Returns how many were deleted, which ones where some were missed, and those that had lost the
-- key with which they were taken.
--
-- Rows are missed where a caller's transaction holds them, and also without one: a fetch that met
-- our lock on a row's old version keeps the new one locked until it ends. They are still ours.
with
mine as materialized (
  select job.id
  from :SCHEMA._private_jobs as job
  where job.id = any (%(ids)s::bigint[]) and job.locked_by = %(worker_id)s
  for update skip locked
),
completed as (
  delete from :SCHEMA._private_jobs as job
  where job.id = any (array(select mine.id from mine))
  returning job.id, job.key
)
select
  (select count(*) from completed),
  case
    when (select count(*) from completed) < cardinality(%(ids)s::bigint[])
      then array(select completed.id from completed)
  end,
  array(
    select completed.id
    from completed
    where completed.key is null and completed.id = any (%(keyed_ids)s::bigint[])
  )
