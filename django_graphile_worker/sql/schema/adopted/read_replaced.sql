-- The definitions that ours stand in for, by name.
select name, definition from :SCHEMA.django_replaced_functions order by name
