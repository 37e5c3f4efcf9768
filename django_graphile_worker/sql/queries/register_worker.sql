-- Write down a worker that starts. Locks its own row only. Returns its name, or no row where a
-- worker of that name was declared dead: such a name is void.
--
-- May be sent again with the same name, where the answer to the first time was lost.
insert into :SCHEMA.django_workers as worker (
  worker_id, host, pid, concurrency, heartbeat, stale_after
)
values (
  %(worker_id)s, %(host)s, %(pid)s, %(concurrency)s,
  make_interval(secs => %(heartbeat)s), make_interval(secs => %(stale_after)s)
)
on conflict (worker_id) do update
  set last_beat_at = now(), watching_since = now()
  where worker.dead_at is null
returning worker.worker_id
