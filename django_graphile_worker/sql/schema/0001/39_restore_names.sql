-- Put back task and queue names that somebody's cleanup has collected while jobs that refer to them
-- were being stored. Waits only for another session that is making one of the same names. Returns
-- nothing.
--
-- Such a job would belong to no task, or to no queue, and nobody would ever run it. The names come
-- back under the ids that the jobs refer to; only where somebody has made them anew meanwhile are
-- the jobs changed. Of those it takes with skip locked: the caller's own are free to it.
--
-- Where the whole transaction has one snapshot the names cannot be seen to be gone: 40001 is raised.
create function :SCHEMA.django_restore_names(
  task_ids int[], identifiers text[], queue_ids int[], queue_names text[]
) returns void
language plpgsql volatile as $$
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    perform :SCHEMA.django_ensure_names(identifiers, queue_names);
    return;
  end if;

  if not exists (
    select from unnest(django_restore_names.task_ids) as used(id)
    where used.id is not null and not exists (
      select from :SCHEMA._private_tasks as task where task.id = used.id)
  ) and not exists (
    select from unnest(django_restore_names.queue_ids) as used(id)
    where used.id is not null and not exists (
      select from :SCHEMA._private_job_queues as queue where queue.id = used.id)
  ) then
    return;
  end if;

  insert into :SCHEMA._private_tasks (id, identifier) overriding system value
  select lost.id, lost.name
  from unnest(django_restore_names.task_ids, django_restore_names.identifiers) as lost(id, name)
  where lost.id is not null
  order by lost.name collate "C"
  on conflict do nothing;

  insert into :SCHEMA._private_job_queues (id, queue_name) overriding system value
  select lost.id, lost.name
  from unnest(django_restore_names.queue_ids, django_restore_names.queue_names) as lost(id, name)
  where lost.id is not null
  order by lost.name collate "C"
  on conflict do nothing;

  with mine as materialized (
    select job.id, task.id as task_id
    from unnest(django_restore_names.task_ids, django_restore_names.identifiers) as lost(id, name)
    join :SCHEMA._private_tasks as task on task.identifier = lost.name and task.id <> lost.id
    join :SCHEMA._private_jobs as job on job.task_id = lost.id
    for update of job skip locked
  )
  update :SCHEMA._private_jobs as job set task_id = mine.task_id from mine where job.id = mine.id;

  with mine as materialized (
    select job.id, queue.id as queue_id
    from unnest(django_restore_names.queue_ids, django_restore_names.queue_names) as lost(id, name)
    join :SCHEMA._private_job_queues as queue
      on queue.queue_name = lost.name and queue.id <> lost.id
    join :SCHEMA._private_jobs as job on job.job_queue_id = lost.id
    for update of job skip locked
  )
  update :SCHEMA._private_jobs as job set job_queue_id = mine.queue_id from mine where job.id = mine.id;
end
$$;
grant execute on function :SCHEMA.django_restore_names(int[], text[], int[], text[]) to public;
