-- Make the table of statistics: what our workers have run, by minute and task. Added up, never by job.
--
-- `waits` and `runs` are histograms of seconds: element n counts the values of the n-th bucket (see
-- `statements/statistics.py`), and elements that are zero are left out at the end.
create table if not exists :SCHEMA.django_statistics (
  id bigint generated always as identity primary key,
  minute timestamptz not null,
  task_identifier text not null,
  succeeded bigint not null,
  retried bigint not null,
  failed bigint not null,
  waits bigint[] not null,
  runs bigint[] not null,
  unique (minute, task_identifier)
);
