-- Write down supersedings; called by add_jobs in the transaction that made them, for rows it has
-- locked. Waits for nothing: it inserts, and trims with skip locked. Returns nothing.
--
-- It runs as its owner, so that a caller needs no privilege on our table; anyone may call it, so it
-- believes little: the superseded row must have lost its key and its attempts and not be recorded
-- yet, and the key must have a new holder.
-- The record bounds itself, since no worker of ours may be there to do it: at most the newest
-- 100,000 rows stay (identity values are never reused, so a distance in ids bounds the count).
create function :SCHEMA.django_record_key_conflicts(
  mode text, keys text[], superseded_ids bigint[], superseded_attempts smallint[]
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
declare
  v_newest bigint;
begin
  with recorded as (
    insert into :SCHEMA.django_key_conflicts as conflict (
      key, mode, superseded_job_id, superseded_task, superseded_state, superseded_attempts,
      superseded_max_attempts, superseded_locked_by, superseded_locked_at,
      successor_job_id, successor_task
    )
    select
      change.key, django_record_key_conflicts.mode, old.id, old_task.identifier,
      case when old.locked_at is null then 'failed' else 'locked' end, change.attempts,
      old.max_attempts, old.locked_by, old.locked_at, new.id, new_task.identifier
    from unnest(
      django_record_key_conflicts.keys,
      django_record_key_conflicts.superseded_ids,
      django_record_key_conflicts.superseded_attempts
    ) as change(key, id, attempts)
    -- Limits, and no sequential scan: a plan kept from a smaller table would read all of it for
    -- each change.
    cross join lateral (
      select found.* from :SCHEMA._private_jobs as found where found.id = change.id limit 1
    ) as old
    cross join lateral (
      select found.* from :SCHEMA._private_jobs as found where found.key = change.key limit 1
    ) as new
    left join :SCHEMA._private_tasks as old_task on old_task.id = old.task_id
    left join :SCHEMA._private_tasks as new_task on new_task.id = new.task_id
    where old.key is null and old.attempts = old.max_attempts
      and not exists (
        select from :SCHEMA.django_key_conflicts as known where known.superseded_job_id = old.id
      )
    returning conflict.id
  )
  select max(recorded.id) into v_newest from recorded;

  -- Twice as many as were added, so that a record that has grown too long shrinks again.
  delete from :SCHEMA.django_key_conflicts as conflict
  where conflict.id = any (array(
    select oldest.id
    from :SCHEMA.django_key_conflicts as oldest
    where oldest.id <= v_newest - 100000
    order by oldest.id
    limit 2 * cardinality(django_record_key_conflicts.keys)
    for update skip locked
  ));
end
$$;
grant execute on function
  :SCHEMA.django_record_key_conflicts(text, text[], bigint[], smallint[]) to public;
