-- Make a named queue unless there is one. Locks its name, waiting for another session that is making
-- the same. Returns nothing.
select :SCHEMA.django_ensure_names(array[]::text[], array[%(queue_name)s::text])::text
