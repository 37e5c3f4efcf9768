-- Read which version of our functions was put here, how, and whether we made the schema as well.
select functions_version, origin, schema_created from :SCHEMA.django_installation
