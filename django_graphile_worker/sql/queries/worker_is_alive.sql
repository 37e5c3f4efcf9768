-- Tell whether this worker counts as alive. Locks nothing. Returns one boolean.
select exists (
  select
  from :SCHEMA.django_workers as worker
  where worker.worker_id = %(worker_id)s and worker.dead_at is null
)
