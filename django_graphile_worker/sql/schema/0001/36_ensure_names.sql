-- Make the task and queue names that do not exist yet. Waits only for another session that is
-- making one of the same names. Returns nothing.
--
-- Names are made in byte order, tasks before queues, so that two first uses wait for each other in
-- one direction only. A known name costs no identity value: upstream spent one per call before its
-- revision 20, and the columns are 32-bit.
--
-- Where the whole transaction has one snapshot, a name that was collected since looks as if it were
-- there, and a job stored for it would never run. So there each name that is seen is put to the
-- test: only a name that is gone can be inserted again, and then the transaction has to start anew.
create function :SCHEMA.django_ensure_names(identifiers text[], queue_names text[]) returns void
language plpgsql volatile as $$
declare
  v_name text;
  v_id int;
  v_gone boolean;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    -- One by one, or known and new names would not come in one order.
    for v_name in
      select distinct wanted.name collate "C"
      from unnest(django_ensure_names.identifiers) as wanted(name)
      where wanted.name is not null
      order by 1
    loop
      select known.id into v_id
      from :SCHEMA._private_tasks as known
      where known.identifier = v_name;
      if found then
        insert into :SCHEMA._private_tasks (id, identifier) overriding system value
        values (v_id, v_name)
        on conflict do nothing;
        v_gone := found;
      else
        insert into :SCHEMA._private_tasks (identifier) values (v_name)
        on conflict (identifier) do nothing;
      end if;
      exit when v_gone;
    end loop;
    for v_name in
      select distinct wanted.name collate "C"
      from unnest(django_ensure_names.queue_names) as wanted(name)
      where wanted.name is not null and v_gone is not true
      order by 1
    loop
      select known.id into v_id
      from :SCHEMA._private_job_queues as known
      where known.queue_name = v_name;
      if found then
        insert into :SCHEMA._private_job_queues (id, queue_name) overriding system value
        values (v_id, v_name)
        on conflict do nothing;
        v_gone := found;
      else
        insert into :SCHEMA._private_job_queues (queue_name) values (v_name)
        on conflict (queue_name) do nothing;
      end if;
      exit when v_gone;
    end loop;
    if v_gone then
      raise serialization_failure using message = format(
        'could not serialize access: the task or queue %L was collected', v_name);
    end if;
    return;
  end if;

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
