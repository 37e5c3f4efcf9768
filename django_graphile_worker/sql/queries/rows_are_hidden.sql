-- Tell whether row level security is in force for this role on the jobs. Locks nothing.
-- Returns one boolean.
select row_security_active(to_regclass(format('%%I._private_jobs', %(schema)s::text))::oid)
