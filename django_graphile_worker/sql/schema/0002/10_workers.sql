-- Make what tells a live worker from a dead one. All of it is ours: nothing refers to upstream's.

-- One row for each start of a worker, under the name that its locks carry. `stale_after` is the
-- worker's own, so that workers with different settings agree on who is dead. Once `dead_at` is
-- set the name is void for ever; the row stays until nothing is locked by that name any more.
-- `watching_since`: from when on it has been heard without a gap. Who was not heard, since the
-- database was away perhaps, must not judge others by their silence.
create table if not exists :SCHEMA.django_workers (
  worker_id text primary key check (char_length(worker_id) between 1 and 100),
  host text not null,
  pid int not null,
  concurrency int not null,
  started_at timestamptz not null default now(),
  last_beat_at timestamptz not null default now(),
  watching_since timestamptz not null default now(),
  heartbeat interval not null,
  stale_after interval not null,
  stopping_at timestamptz,
  dead_at timestamptz
);

-- Locks that were taken more than three hours ago by a worker that lives: their `locked_at` is
-- renewed, or a Node worker's sweep would take them after four. `taken_at` is the true start.
create table if not exists :SCHEMA.django_renewed_locks (
  job_id bigint primary key,
  queue_id int,
  worker_id text not null,
  taken_at timestamptz not null,
  locked_at timestamptz not null
);
