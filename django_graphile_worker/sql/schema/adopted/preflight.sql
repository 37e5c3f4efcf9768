-- Who owns what another installer has made, and may we do there what has to be done? One row: the
-- owner of the jobs (null where there is no such table), whether we may act as that owner, whether
-- the owner may create in the schema, and what of the rest somebody else owns.
select
  jobs.owner,
  pg_has_role(current_user, jobs.owner, 'member'),
  has_schema_privilege(jobs.owner, namespace.oid, 'create'),
  array(
    select format('%%s %%s', part.kind, part.name)
    from (
      select 'table' as kind, relation.relname as name, relation.relowner as owner
      from pg_class as relation
      where relation.relnamespace = namespace.oid and relation.relkind in ('r', 'p', 'v')
        and relation.relname in (
          '_private_jobs', '_private_job_queues', '_private_tasks', '_private_known_crontabs',
          'migrations', 'jobs'
        )
      union all
      select 'function', routine.proname, routine.proowner
      from pg_proc as routine
      where routine.pronamespace = namespace.oid and routine.proname = any (%(names)s::text[])
    ) as part
    where not pg_has_role(jobs.owner, part.owner, 'member')
    order by 1
  )
from pg_namespace as namespace
left join lateral (
  select pg_get_userbyid(relation.relowner) as owner
  from pg_class as relation
  where relation.relnamespace = namespace.oid and relation.relname = '_private_jobs'
    and relation.relkind = 'r'
) as jobs on true
where namespace.nspname = %(schema)s::text
