-- Delete the oldest statistics: beyond their time, or beyond the newest `keep` rows. Locks them with
-- skip locked: waits for nobody. Returns how many went: with `most` of them there are more.
with
oldest as materialized (
  select statistic.id
  from :SCHEMA.django_statistics as statistic
  where statistic.minute < greatest(
    now() - make_interval(secs => %(seconds)s::float8),
    (
      select newest.minute from :SCHEMA.django_statistics as newest
      order by newest.minute desc, newest.task_identifier desc
      offset %(keep)s::bigint limit 1
    )
  )
  order by statistic.minute, statistic.task_identifier
  limit %(most)s::int
  for update skip locked
),
trimmed as (
  delete from :SCHEMA.django_statistics as statistic
  where statistic.id = any (array(select oldest.id from oldest))
  returning statistic.id
)
select count(*) from trimmed
