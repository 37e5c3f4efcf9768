-- Tell which revision this schema has, and which version of our functions. Locks nothing.
-- Returns one row of two numbers.
select
  (select max(migration.id) from :SCHEMA.migrations as migration),
  (select installation.functions_version from :SCHEMA.django_installation as installation)
