-- The published functions as they stand: name, types of the arguments, body, and the whole definition.
-- Locks nothing; returns a row for each function of one of these names.
select
  routine.proname::text,
  array(
    select format_type(type, null)
    from unnest(routine.proargtypes) with ordinality as argument(type, place)
    order by place
  ),
  routine.prosrc,
  pg_get_functiondef(routine.oid)
from pg_proc as routine
where routine.pronamespace = (select oid from pg_namespace where nspname = %(schema)s::text)
  and routine.proname = any (%(names)s::text[]) and routine.prokind = 'f'
order by routine.proname, routine.oid
