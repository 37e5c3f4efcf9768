-- Set up the rest of this transaction for a fetch: read along indexes, and wait for nobody for long.
-- Locks nothing. Returns the settings.
--
-- A queue's statistics are always behind. Taking it for nearly empty, the planner reads every due
-- job and sorts them to find the first ten (measured at 20,000 due jobs: 60 ms in place of 3);
-- taking it for full, it compiles the statement first (20 ms). Where there is no such index a sort
-- is done all the same.
--
-- And skip locked can wait after all: where the one who had changed a row ends just as the row is
-- looked at, PostgreSQL follows it to its next version and waits for whoever has changed that one
-- ("while locking updated version"). Between calls with several keys that was a circle, and the
-- fetch is the one to leave it, well before PostgreSQL looks for deadlocks (after 1 s).
--
-- For one transaction only, so that it may go through a transaction pooler.
select
  set_config('enable_sort', 'off', true),
  set_config('jit', 'off', true),
  set_config('lock_timeout', '200ms', true)
