-- Drop what 0002 made, piece by piece and never with cascade.
drop index :SCHEMA.django_jobs_queue;
drop index :SCHEMA.django_jobs_task;
drop table :SCHEMA.django_job_errors;
drop table :SCHEMA.django_renewed_locks;
drop table :SCHEMA.django_workers;
