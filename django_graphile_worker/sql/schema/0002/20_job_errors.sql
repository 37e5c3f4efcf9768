-- Make the history of failures: one row for each attempt that failed, written by the statement that
-- fails the job. Our workers write it; it is bounded by those that sweep.
create table if not exists :SCHEMA.django_job_errors (
  id bigint generated always as identity primary key,
  job_id bigint not null,
  task_identifier text not null,
  attempt smallint not null,
  max_attempts smallint not null,
  error text not null,
  worker_id text,
  locked_at timestamptz,
  failed_at timestamptz not null default now()
);
create index if not exists django_job_errors_job on :SCHEMA.django_job_errors (job_id);
