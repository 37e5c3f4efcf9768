-- Make the indexes that lead a fetch past what it must not take.
--
-- Upstream's are led by priority: a head of failed, foreign or future jobs is walked through by
-- each fetch. By task and priority, and by queue, each due job is found without a detour.
create index if not exists django_jobs_task on :SCHEMA._private_jobs (task_id, priority, run_at)
  where (is_available = true and job_queue_id is null);
create index if not exists django_jobs_queue on :SCHEMA._private_jobs (job_queue_id, priority, run_at)
  where (is_available = true and job_queue_id is not null);
