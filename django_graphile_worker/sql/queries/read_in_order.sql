-- Let the rest of this transaction read tables along their indexes. Locks nothing. Returns the
-- settings.
--
-- A queue's statistics are always behind. Taking it for nearly empty, the planner reads every due
-- job and sorts them to find the first ten (measured at 20,000 due jobs: 60 ms in place of 3), and
-- taking it for full, it compiles the statement first (20 ms). For one transaction only, so that
-- it may be sent through a transaction pooler.
select
  set_config('enable_bitmapscan', 'off', true),
  set_config('enable_seqscan', 'off', true),
  set_config('jit', 'off', true)
