-- Free every job and queue that the given workers hold; locks the jobs in byte order of their keys,
-- then the queues by id; returns one row without meaning.
select :SCHEMA.force_unlock_workers(worker_ids => %(worker_ids)s::text[])
