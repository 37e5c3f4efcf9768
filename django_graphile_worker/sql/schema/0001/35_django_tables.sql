-- Make what is ours alone: every name starts with `django_`, nothing refers to an upstream table or type.

-- One row. Which version of our functions stands in this schema, and how it came here.
create table :SCHEMA.django_installation (
  id int primary key default 1 check (id = 1),
  functions_version int not null,
  origin text not null check (origin in ('installed', 'adopted')),
  schema_created boolean not null,
  installed_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);

-- The published functions that ours stand in for, as they were: what another installer has put here.
-- Empty where there was none. The way back restores them.
create table :SCHEMA.django_replaced_functions (
  name text primary key,
  definition text not null,
  replaced_at timestamptz not null default now()
);

-- One row for each superseding; written by django_record_key_conflicts, which also bounds it.
-- The superseded job's columns tell how it stood just before; outcome and finished_at are filled
-- in by our workers when it ends, and stay null where another language's worker ran it.
create table :SCHEMA.django_key_conflicts (
  id bigint generated always as identity primary key,
  recorded_at timestamptz not null default now(),
  key text not null,
  mode text not null,
  superseded_job_id bigint not null,
  superseded_task text,
  superseded_state text not null check (superseded_state in ('locked', 'failed')),
  superseded_attempts smallint not null,
  superseded_max_attempts smallint not null,
  superseded_locked_by text,
  superseded_locked_at timestamptz,
  successor_job_id bigint not null,
  successor_task text,
  outcome text check (outcome in ('completed', 'failed', 'returned')),
  finished_at timestamptz
);
create index django_key_conflicts_superseded on :SCHEMA.django_key_conflicts (superseded_job_id);

-- Locked rows, oldest first, for the admin, force_unlock_workers and rescue: without it each of
-- them reads every job. A permanently failed row is here too, with a null locked_at.
create index django_jobs_locked on :SCHEMA._private_jobs (locked_at) where (is_available = false);
