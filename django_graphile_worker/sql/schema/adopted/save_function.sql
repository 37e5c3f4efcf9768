-- Keep the definition of a function that ours stands in for. Returns nothing.
insert into :SCHEMA.django_replaced_functions as kept (name, definition)
values (%(name)s::text, %(definition)s::text)
on conflict (name) do update set definition = excluded.definition, replaced_at = now()
