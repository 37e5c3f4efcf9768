-- Add what a worker has counted to the rows of its minutes and tasks. Locks those rows, by minute and
-- then by task in byte order: all workers do, so none of them waits in a circle; a wait lasts as long as
-- another worker's statement. Returns a row for each.
insert into :SCHEMA.django_statistics as stored
  (minute, task_identifier, succeeded, retried, failed, waits, runs)
select
  to_timestamp(counted.minute * 60.0), counted.task, counted.succeeded, counted.retried,
  counted.failed, counted.waits, counted.runs
from json_to_recordset(%(rows)s::json) as counted (
  minute bigint, task text, succeeded bigint, retried bigint, failed bigint,
  waits bigint[], runs bigint[]
)
order by counted.minute, counted.task collate "C"
on conflict (minute, task_identifier) do update set
  succeeded = stored.succeeded + excluded.succeeded,
  retried = stored.retried + excluded.retried,
  failed = stored.failed + excluded.failed,
  waits = array(
    select coalesce(both_.old, 0) + coalesce(both_.new, 0)
    from unnest(stored.waits, excluded.waits) with ordinality as both_ (old, new, place)
    order by both_.place
  ),
  runs = array(
    select coalesce(both_.old, 0) + coalesce(both_.new, 0)
    from unnest(stored.runs, excluded.runs) with ordinality as both_ (old, new, place)
    order by both_.place
  )
returning stored.id
