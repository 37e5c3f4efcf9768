-- Read which version of our functions was put here, and whether we made the schema as well.
select functions_version, schema_created from :SCHEMA.django_installation
