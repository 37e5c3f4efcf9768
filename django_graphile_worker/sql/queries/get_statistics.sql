-- Read what workers have run since a while, added up by steps of time and, where asked, by task. Locks
-- nothing. Returns a row per step, or per task: only the newest `most` rows of statistics are read.
with
read as materialized (
  select
    case when %(by_task)s::boolean then statistic.task_identifier else '' end as task,
    case
      when %(by_task)s::boolean then null
      else date_bin(make_interval(secs => %(step)s::float8), statistic.minute, to_timestamp(0))
    end as step,
    statistic.succeeded, statistic.retried, statistic.failed, statistic.waits, statistic.runs
  from :SCHEMA.django_statistics as statistic
  where statistic.minute > now() - make_interval(secs => %(seconds)s::float8)
  order by statistic.minute desc, statistic.task_identifier desc
  limit %(most)s::int
),
counts as (
  select
    read.task, read.step, sum(read.succeeded)::bigint as succeeded,
    sum(read.retried)::bigint as retried, sum(read.failed)::bigint as failed
  from read
  group by read.task, read.step
),
places as (
  select
    read.task, read.step, histograms.place, coalesce(sum(histograms.wait), 0)::bigint as waits,
    coalesce(sum(histograms.run), 0)::bigint as runs
  from read
  cross join lateral unnest(read.waits, read.runs)
    with ordinality as histograms (wait, run, place)
  group by read.task, read.step, histograms.place
),
added as (
  select
    places.task, places.step, array_agg(places.waits order by places.place) as waits,
    array_agg(places.runs order by places.place) as runs
  from places
  group by places.task, places.step
)
select
  counts.task, extract(epoch from counts.step)::float8, counts.succeeded, counts.retried,
  counts.failed, coalesce(added.waits, '{}'), coalesce(added.runs, '{}')
from counts
left join added on added.task = counts.task and added.step is not distinct from counts.step
order by counts.step, counts.succeeded + counts.retried + counts.failed desc, counts.task
limit %(rows)s::int
