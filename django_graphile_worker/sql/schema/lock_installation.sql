-- Let one migration of this schema run at a time, until its transaction ends. Returns nothing of use.
select pg_advisory_xact_lock(hashtextextended('django_graphile_worker:' || %(schema)s::text, 0))
