-- Write down that a worker has begun to stop. Locks its row. Returns its name where it lives.
update :SCHEMA.django_workers as worker
set stopping_at = now()
where worker.worker_id = %(worker_id)s and worker.dead_at is null and worker.stopping_at is null
returning worker.worker_id
