-- Delete the oldest errors of jobs, so that the newest `keep` stay. Locks them with skip locked:
-- waits for nobody. Returns how many went: with `most` of them there are more.
--
-- Identity values are never used twice, so a distance in ids bounds the count.
with
oldest as materialized (
  select failure.id
  from :SCHEMA.django_job_errors as failure
  where failure.id <= (
    select max(newest.id) from :SCHEMA.django_job_errors as newest
  ) - %(keep)s::bigint
  order by failure.id
  limit %(most)s::int
  for update skip locked
),
trimmed as (
  delete from :SCHEMA.django_job_errors as failure
  where failure.id = any (array(select oldest.id from oldest))
  returning failure.id
)
select count(*) from trimmed
