-- Delete jobs of this worker that have succeeded. Locks them with skip locked: waits for nobody.
-- Returns how many were deleted, which ones where some were missed, and those that had lost the
-- key with which they were taken.
--
-- Rows are missed where a caller's transaction holds them, and also without one: a fetch that met
-- our lock on a row's old version keeps the new one locked until it ends. They are still ours.
-- Whoever is written down as dead completes nothing: the job may be running elsewhere by now.
with
mine as materialized (
  select job.ctid as place
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
  where job.ctid = any (array(select mine.place from mine))
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
