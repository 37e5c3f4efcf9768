-- Read what Graphile Worker has recorded: the highest revision, the newest breaking one, whether 19
-- is breaking (only Node's is), and how many seconds ago the newest was recorded.
select
  max(id),
  max(id) filter (where breaking),
  coalesce(bool_or(breaking) filter (where id = 19), false),
  extract(epoch from clock_timestamp() - max(ts))::float8
from :SCHEMA.migrations
