-- Set up the worker's statements: read along indexes, and wait for nobody for long.
-- Locks nothing. Returns the settings.
--
-- A queue's statistics are always behind. Taking it for nearly empty, the planner reads every due
-- job and sorts them to find the first ten (measured at 20,000 due jobs: 60 ms in place of 3);
-- taking it for full, it compiles the statement first (20 ms). So the statements that are prepared
-- get one plan, whatever the values: along the indexes that were made for them. Where there is no
-- such index a sort is done all the same.
--
-- And skip locked can wait after all: where the one who had changed a row ends just as the row is
-- looked at, PostgreSQL follows it to its next version and waits for whoever has changed that one
-- ("while locking updated version"). Between calls with several keys that was a circle, and the
-- worker is the one to leave it, well before PostgreSQL looks for deadlocks (after 1 s).
select
  set_config('enable_seqscan', 'off', %(local)s),
  set_config('enable_bitmapscan', 'off', %(local)s),
  set_config('enable_sort', 'off', %(local)s),
  set_config('jit', 'off', %(local)s),
  set_config('plan_cache_mode', 'force_generic_plan', %(local)s),
  set_config('lock_timeout', '200ms', %(local)s)
