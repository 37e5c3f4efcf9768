-- Set up the rest of this transaction, or of the session, for upkeep: take only so long.
-- Locks nothing. Returns the settings.
--
-- The heartbeat waits behind this on the same connection. And skip locked can wait after all, see
-- docs/locks.md: then it gives up and comes back.
select
  set_config('statement_timeout', %(milliseconds)s::text, %(local)s),
  set_config('lock_timeout', '200ms', %(local)s),
  set_config('jit', 'off', %(local)s)
