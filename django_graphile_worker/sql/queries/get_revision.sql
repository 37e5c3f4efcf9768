-- Tell which revision this schema has, and which version of our functions. Locks nothing.
-- Returns one row of two numbers and a boolean. Fails where a table that a worker needs is not there.
select
  (select max(migration.id) from :SCHEMA.migrations as migration),
  (select installation.functions_version from :SCHEMA.django_installation as installation),
  exists (select from :SCHEMA.django_workers)
