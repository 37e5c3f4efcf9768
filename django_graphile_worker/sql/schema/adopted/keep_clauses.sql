-- Say what gives a function of ours the clauses (`security definer`, `set ...`) that the one before
-- it had. CREATE OR REPLACE keeps owner and grants, but not these. One statement a row.
select format('alter function %%s %%s', routine.oid::regprocedure, clause)
from pg_proc as routine
cross join unnest(%(clauses)s::text[]) as clause
where routine.pronamespace = (select oid from pg_namespace where nspname = %(schema)s::text)
  and routine.proname = %(name)s::text
