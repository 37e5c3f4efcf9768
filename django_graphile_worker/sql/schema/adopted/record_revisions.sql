-- Record Graphile Worker's revisions above the one that stands here, up to 20, and tell its running
-- workers, as an installer of its own would. 19 only marks that older workers must go; 20 is
-- function bodies, which ours stand in for.
with recorded as (
  insert into :SCHEMA.migrations (id, breaking)
  select revision, revision = 19
  from generate_series(19, 20) as revision
  where revision > (select max(id) from :SCHEMA.migrations)
  returning id, breaking
)
select pg_notify(
  'worker:migrate',
  json_build_object('migrationNumber', recorded.id, 'breaking', recorded.breaking)::text
)
from recorded
