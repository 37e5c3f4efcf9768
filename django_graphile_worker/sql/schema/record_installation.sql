-- Write down that we filled this schema, with which version of our functions.
insert into :SCHEMA.django_installation (functions_version, origin, schema_created)
values (%(version)s::int, 'installed', %(schema_created)s::boolean)
