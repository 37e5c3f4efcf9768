-- Lock those of some jobs that no worker holds, however long ago one took them. Locks them in byte
-- order of their keys, then by id. Returns their ids, keys, and how they stand.
--
-- The published functions take a lock of four hours for stale; a person is told of it instead.
select
  job.id,
  job.key,
  job.attempts < job.max_attempts,
  job.run_at <= statement_timestamp()
from :SCHEMA._private_jobs as job
where job.id = any (%(job_ids)s::bigint[]) and job.locked_at is null
order by coalesce(job.key, :SCHEMA.django_former_key(job.id)) collate "C" nulls last, job.id
for update
