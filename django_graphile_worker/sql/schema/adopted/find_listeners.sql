-- Count the sessions in this database that were last seen to listen as Node's workers do, and ours
-- do not. Whoever may not see what other roles run counts none of theirs. Locks nothing.
select count(*)
from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid()
  and query ~* '^\s*listen\y' and strpos(query, 'worker:migrate') > 0
