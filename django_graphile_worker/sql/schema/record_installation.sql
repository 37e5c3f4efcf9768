-- Write down who filled this schema, with which version of our functions, and whether we made the
-- schema, too.
insert into :SCHEMA.django_installation (functions_version, origin, schema_created)
values (%s, %s, %s)
