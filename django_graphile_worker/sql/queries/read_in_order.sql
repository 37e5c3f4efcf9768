-- Let the rest of this transaction read what it wants in an order along the index that has that
-- order. Locks nothing. Returns the settings.
--
-- A queue's statistics are always behind. Taking it for nearly empty, the planner reads every due
-- job and sorts them to find the first ten (measured at 20,000 due jobs: 60 ms in place of 3);
-- taking it for full, it compiles the statement first (20 ms). Where there is no such index a sort
-- is done all the same. For one transaction only, so that it may go through a transaction pooler.
select set_config('enable_sort', 'off', true), set_config('jit', 'off', true)
