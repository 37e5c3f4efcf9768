-- Tell that workers live. Locks the workers' rows: waits only for whoever declares one of these
-- workers dead at this moment. Returns the names of those that do live.
--
-- It touches no other table: one that is locked whole, for a change to it, must not make all workers
-- look dead. A silence of more than two heartbeats, a database that was away for instance, begins a
-- worker's watch anew: it cannot tell then whether the others were dead or unheard.
update :SCHEMA.django_workers as worker
set
  last_beat_at = now(),
  watching_since = case
    when worker.last_beat_at >= now() - 2 * worker.heartbeat then worker.watching_since
    else now()
  end
where worker.worker_id = any (%(worker_ids)s::text[]) and worker.dead_at is null
returning worker.worker_id
