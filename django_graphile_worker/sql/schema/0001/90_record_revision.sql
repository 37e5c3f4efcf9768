-- Record the twenty revisions that Graphile Worker has published, so that a Node worker of 0.18
-- finds nothing to migrate and leaves our functions in place. Never record more: a worker skips
-- each of its migrations whose number is not above the highest one here.
insert into :SCHEMA.migrations (id, breaking)
select revision, revision in (1, 3, 11, 13, 14, 16, 19)
from generate_series(1, 20) as revision;
