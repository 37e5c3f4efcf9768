-- Make the task and queue names that do not exist yet. Waits only for another session that is
-- making one of the same names. Returns nothing.
--
-- Names are made in byte order, tasks before queues, so that two first uses wait for each other in
-- one direction only. A known name costs no identity value: upstream spent one per call before its
-- revision 20, and the columns are 32-bit.
create function :SCHEMA.django_ensure_names(identifiers text[], queue_names text[]) returns void
language plpgsql volatile as $$
begin
  insert into :SCHEMA._private_tasks (identifier)
  select distinct wanted.name collate "C"
  from unnest(django_ensure_names.identifiers) as wanted(name)
  where not exists (
    select from :SCHEMA._private_tasks as known where known.identifier = wanted.name
  )
  order by 1
  on conflict (identifier) do nothing;

  insert into :SCHEMA._private_job_queues (queue_name)
  select distinct wanted.name collate "C"
  from unnest(django_ensure_names.queue_names) as wanted(name)
  where wanted.name is not null and not exists (
    select from :SCHEMA._private_job_queues as known where known.queue_name = wanted.name
  )
  order by 1
  on conflict (queue_name) do nothing;
end
$$;
grant execute on function :SCHEMA.django_ensure_names(text[], text[]) to public;
