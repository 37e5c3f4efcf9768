-- Look at what stands where the schema is to be: does it exist, how many objects are in it, and
-- are there the tables that tell where it came from. Locks nothing; returns one row.
--
-- A table counts by its columns: any project may have one of its own that is called migrations.
select
  namespace.oid is not null,
  (select count(*) from pg_class where relnamespace = namespace.oid)
    + (select count(*) from pg_proc where pronamespace = namespace.oid)
    + (select count(*) from pg_type where typnamespace = namespace.oid),
  (
    select count(*) = 3 from pg_class as relation
    join pg_attribute as field on field.attrelid = relation.oid
    where relation.relnamespace = namespace.oid and relation.relname = 'migrations'
      and (field.attname::text, field.atttypid::int) in (
        ('id', 'int'::regtype::int), ('ts', 'timestamptz'::regtype::int),
        ('breaking', 'bool'::regtype::int))
  ),
  (
    select count(*) = 3 from pg_class as relation
    join pg_attribute as field on field.attrelid = relation.oid
    where relation.relnamespace = namespace.oid and relation.relname = 'django_installation'
      and (field.attname::text, field.atttypid::int) in (
        ('functions_version', 'int'::regtype::int), ('origin', 'text'::regtype::int),
        ('schema_created', 'bool'::regtype::int))
  )
from (select) as one
left join pg_namespace as namespace on namespace.nspname = %(schema)s::text
