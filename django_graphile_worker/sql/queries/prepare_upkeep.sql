-- Set up the rest of this transaction, or of the session, for upkeep: read along indexes, and take
-- only so long. Locks nothing. Returns the settings.
--
-- The heartbeat waits behind this on the same connection. And skip locked can wait after all, see
-- docs/locks.md: then it gives up and comes back.
--
-- Along indexes, since a queue's statistics are always behind: the planner takes a table for nearly
-- empty, and reads 300,000 failed jobs to find that none of them is locked.
select
  set_config('statement_timeout', %(milliseconds)s::text, %(local)s),
  set_config('lock_timeout', '200ms', %(local)s),
  set_config('enable_seqscan', 'off', %(local)s),
  set_config('enable_sort', 'off', %(local)s),
  set_config('jit', 'off', %(local)s)
