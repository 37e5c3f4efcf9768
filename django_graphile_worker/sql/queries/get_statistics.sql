-- Read what workers have run since a while, added up by steps of time or, where asked, by task. Locks
-- nothing. Returns a row per step or task, the newest or busiest `rows`. Attempts are all counted;
-- histograms are added up of some `most` rows in all, evenly chosen where there are more: of all
-- 200,000 that the table holds it took 8 s.
with
counts as materialized (
  select
    case when %(by_task)s::boolean then statistic.task_identifier else '' end as task,
    case
      when %(by_task)s::boolean then to_timestamp(0)
      else date_bin(make_interval(secs => %(step)s::float8), statistic.minute, to_timestamp(0))
    end as step,
    sum(statistic.succeeded)::bigint as succeeded, sum(statistic.retried)::bigint as retried,
    sum(statistic.failed)::bigint as failed, count(*) as entries
  from :SCHEMA.django_statistics as statistic
  where statistic.minute > now() - make_interval(secs => %(seconds)s::float8)
  group by 1, 2
  order by 2 desc, sum(statistic.succeeded + statistic.retried + statistic.failed) desc, 1
  limit %(rows)s::int
),
shares as (
  select
    counts.task, counts.step,
    -- As many of each, so that a quiet step is not lost beside a busy one.
    greatest(1, counts.entries * (select count(*) from counts) / %(most)s::int) as every
  from counts
),
read as (
  select shares.task, shares.step, shares.every, statistic.waits, statistic.runs
  from :SCHEMA.django_statistics as statistic
  join shares
    on shares.task = case when %(by_task)s::boolean then statistic.task_identifier else '' end
    and shares.step = case
      when %(by_task)s::boolean then to_timestamp(0)
      else date_bin(make_interval(secs => %(step)s::float8), statistic.minute, to_timestamp(0))
    end
  where statistic.minute > now() - make_interval(secs => %(seconds)s::float8)
    -- By a hash: every tenth id could be one and the same task, minute after minute.
    and abs(hashint8(statistic.id)::bigint) %% shares.every = 0
),
places as (
  select
    read.task, read.step, histograms.place,
    -- Each stands for those that were passed over.
    (coalesce(sum(histograms.wait), 0) * min(read.every))::bigint as waits,
    (coalesce(sum(histograms.run), 0) * min(read.every))::bigint as runs
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
  counts.task, case when not %(by_task)s::boolean then extract(epoch from counts.step)::float8 end,
  counts.succeeded, counts.retried, counts.failed, coalesce(added.waits, '{}'),
  coalesce(added.runs, '{}')
from counts
left join added on added.task = counts.task and added.step = counts.step
order by counts.step, counts.succeeded + counts.retried + counts.failed desc, counts.task
