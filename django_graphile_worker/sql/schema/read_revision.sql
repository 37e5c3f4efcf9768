-- Read the highest revision that Graphile Worker has recorded; null when there is none.
select max(id) from :SCHEMA.migrations
