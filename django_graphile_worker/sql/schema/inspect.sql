-- Look at what stands where the schema is to be: does it exist, how many objects are in it, and
-- are there the tables that tell where it came from. Locks nothing; returns one row.
select
  namespace.oid is not null,
  (select count(*) from pg_class where relnamespace = namespace.oid)
    + (select count(*) from pg_proc where pronamespace = namespace.oid)
    + (select count(*) from pg_type where typnamespace = namespace.oid),
  exists (select from pg_class where relnamespace = namespace.oid and relname = 'migrations'),
  exists (select from pg_class where relnamespace = namespace.oid and relname = 'django_installation')
from (select) as one
left join pg_namespace as namespace on namespace.nspname = %(schema)s::text
