-- Free every job and queue that the given workers hold. Locks the jobs in byte order of their keys,
-- then by id; after them the queues by id. Returns one row without meaning.
select :SCHEMA.force_unlock_workers(worker_ids => %(worker_ids)s::text[])
