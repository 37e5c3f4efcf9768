-- Add many jobs, or change those that hold their keys; returns one row per spec, in the order of
-- the specs, as each job stands at the end, or raises. Locks the holders of the keys in byte order
-- of the key; first uses of names wait before that, for other first uses of the same names.
--
-- Upsert first. ON CONFLICT DO UPDATE locks the conflicting row even where its guard is false, so
-- after one statement every holder of every key is ours and frozen. A holder that was not available
-- (it runs, or has used up its attempts) is then superseded without a race: its key is taken from
-- it, and the request inserted anew; whoever else wants the key waits for us. Doing it in the other
-- order, keys freed first, leaves a gap in which a worker may lock a holder, and the request is lost.
--
-- PL/pgSQL keeps plans. One that was made while the table was nearly empty would read all of it for
-- each spec: 10,001 specs took 43 s. So jobs are looked up by lateral subqueries with a limit, which
-- fix the direction of the join, and never by a sequential scan: the same specs take 0.5 s. As these
-- plans serve any number of specs, they are kept from the first call on: to supersede one job took
-- 4 ms, most of it planning, and takes 2 ms.
create or replace function :SCHEMA.add_jobs(
  specs :SCHEMA.job_spec[],
  job_key_preserve_run_at boolean default false
) returns setof :SCHEMA._private_jobs
language plpgsql volatile set enable_seqscan = off set plan_cache_mode = force_generic_plan as $$
declare
  v_preserve constant boolean := coalesce(job_key_preserve_run_at, false);
  v_keyed bigint;                        -- specs with a key
  v_keys bigint;                         -- different keys among them
  v_identified bigint;                   -- specs with an identifier, of which these are
  v_first text;                          -- the first and the last
  v_last text;
  v_queued bigint;                       -- specs with a queue
  v_identifiers text[];                  -- the different names, in byte order
  v_queue_names text[] := '{}';
  v_wanted :SCHEMA.job_spec[] := specs;  -- what is still to be stored, each key at most once
  v_repeats int[];                       -- for each wanted spec: how many others it stands for
  v_restarted_keys text[];               -- keys whose batch must not join the holder's, and
  v_restarted_payloads json[];           -- what their payload is instead
  v_task_ids int[];                      -- what the names stand for, in their order
  v_queue_ids int[];
  v_named boolean;                       -- did the storing statement still see all of these?
  v_used_task_ids int[] := '{}';         -- the same of all rounds, each beside its name
  v_used_identifiers text[] := '{}';
  v_used_queue_ids int[] := '{}';
  v_used_queue_names text[] := '{}';
  v_ids bigint[];                        -- the jobs, in the order of the specs
  v_new_ids bigint[] := '{}';            -- those without key
  v_round_ids bigint[];
  v_stored bigint;
  v_matched bigint;                      -- how many of the stored jobs found their spec by the key
  v_left bigint;                         -- how many of v_wanted have no row yet
  v_superseded_ids bigint[];
  v_superseded_keys text[];
  v_superseded_attempts smallint[];
begin
  if coalesce(cardinality(specs), 0) = 0 then
    return;
  end if;

  select
    count(spec.job_key), count(distinct spec.job_key collate "C"), count(spec.identifier),
    min(spec.identifier collate "C"), max(spec.identifier collate "C"), count(spec.queue_name)
  into v_keyed, v_keys, v_identified, v_first, v_last, v_queued
  from unnest(specs) as spec;
  if v_identified < cardinality(specs) then
    raise not_null_violation using message = format(
      'add_jobs: specs[%s].identifier is null', (
        select min(spec.position)
        from unnest(specs) with ordinality as spec(
          identifier, payload, queue_name, run_at, max_attempts, job_key, priority, flags, position)
        where spec.identifier is null
      ));
  end if;

  -- Most calls are for one task and without queues; sorting the names that all specs repeat would
  -- be 3 % of such a call.
  v_identifiers := array[v_first];
  if v_first <> v_last then
    v_identifiers := array(
      select distinct spec.identifier collate "C" from unnest(specs) as spec order by 1
    );
  end if;
  if v_queued > 0 then
    v_queue_names := array(
      select distinct spec.queue_name collate "C"
      from unnest(specs) as spec
      where spec.queue_name is not null
      order by 1
    );
  end if;

  -- Before any key is locked: whoever is making one of these names may be waiting for a key of ours.
  if current_setting('transaction_isolation') <> 'read committed' then
    perform :SCHEMA.django_ensure_names(v_identifiers, v_queue_names);
  end if;

  -- Without keys nothing can be in the way, and the rows go straight out: reading them again, as
  -- below, would cost a tenth of the call.
  if v_keyed = 0 then
    for v_round in 1 .. 5 loop
      v_task_ids := array(
        select known.id from :SCHEMA._private_tasks as known
        where known.identifier = any (v_identifiers) order by known.identifier collate "C"
      );
      v_queue_ids := array(
        select known.id from :SCHEMA._private_job_queues as known
        where known.queue_name = any (v_queue_names) order by known.queue_name collate "C"
      );
      return query
      with stored as (
        insert into :SCHEMA._private_jobs as job
          (job_queue_id, task_id, payload, run_at, max_attempts, priority, flags)
        select
          queue.id, v_task_ids[width_bucket(spec.identifier collate "C", v_identifiers)],
          coalesce(spec.payload, '{}'::json), coalesce(spec.run_at, now()),
          coalesce(spec.max_attempts, 25), coalesce(spec.priority, 0),
          case when spec.flags is not null then
            (select jsonb_object_agg(flag.name, true) from unnest(spec.flags) as flag(name))
          end
        from unnest(specs) with ordinality as spec(
          identifier, payload, queue_name, run_at, max_attempts, job_key, priority, flags, position)
        left join :SCHEMA._private_job_queues as queue on queue.queue_name = spec.queue_name
        where (
          select count(*) from :SCHEMA._private_tasks as known
          where known.id = any (v_task_ids)
        ) = cardinality(v_identifiers)
        and (
          select count(*) from :SCHEMA._private_job_queues as known
          where known.id = any (v_queue_ids)
        ) = cardinality(v_queue_names)
        -- Identity values follow this order, which is how a job finds its spec again.
        order by spec.position
        returning job.*
      )
      select stored.* from stored order by stored.id;

      get diagnostics v_stored = row_count;
      if v_stored = cardinality(specs) then
        perform :SCHEMA.django_restore_names(
          v_task_ids, v_identifiers, v_queue_ids, v_queue_names);
        perform pg_notify('jobs:insert', '{"r":' || random() || ',"count":' || v_stored || '}');
        return;
      end if;
      exit when v_stored > 0;
      perform :SCHEMA.django_ensure_names(v_identifiers, v_queue_names);
    end loop;
    raise exception using
      errcode = 'GWBNR',
      message = format('add_jobs: %s of %s specs got a row', v_stored, cardinality(specs)),
      hint = 'Does a trigger or a policy on the jobs table suppress rows?';
  end if;

  -- The same key several times means: added one after the other. Fold them into the last of them.
  if v_keys < v_keyed then
    with spec as (
      select
        item.*, coalesce(json_typeof(item.payload) = 'array', false) as is_batch,
        case when item.job_key is null then item.position end as apart
      from unnest(specs) with ordinality as item(
        identifier, payload, queue_name, run_at, max_attempts, job_key, priority, flags, position)
    ), marked as (
      select
        spec.*,
        max(spec.position) filter (where not spec.is_batch)
          over (partition by spec.job_key collate "C", spec.apart) as last_plain
      from spec
    ), folded as (
      select
        marked.*,
        count(*) over same_key as copies,
        max(marked.position) over same_key as last,
        first_value(marked.run_at) over same_key as first_run_at,
        -- What is between the brackets of the batches at the end; null where there is nothing.
        string_agg(
          case when marked.is_batch and marked.position > coalesce(marked.last_plain, 0) then
            nullif(btrim(
              left(substr(btrim(marked.payload::text, E' \t\n\r'), 2), -1), E' \t\n\r'), '')
          end, ','
        ) over same_key as items
      from marked
      window same_key as (
        partition by marked.job_key collate "C", marked.apart order by marked.position
        rows between unbounded preceding and unbounded following)
    ), wanted as (
      select
        folded.*, folded.is_batch and folded.copies > 1 as is_joined,
        case
          when folded.is_batch and folded.copies > 1
            then cast('[' || coalesce(folded.items, '') || ']' as json)
          else folded.payload
        end as whole_payload
      from folded
      where folded.position = folded.last
    )
    select
      array_agg(cast(row(
        wanted.identifier, wanted.whole_payload, wanted.queue_name,
        case when v_preserve then wanted.first_run_at else wanted.run_at end,
        wanted.max_attempts, wanted.job_key, wanted.priority, wanted.flags
      ) as :SCHEMA.job_spec) order by wanted.position),
      array_agg(wanted.copies::int - 1 order by wanted.position),
      array_agg(wanted.job_key) filter (where wanted.is_joined and wanted.last_plain > 0),
      array_agg(wanted.whole_payload) filter (where wanted.is_joined and wanted.last_plain > 0)
    into v_wanted, v_repeats, v_restarted_keys, v_restarted_payloads
    from wanted;
  end if;
  v_left := cardinality(v_wanted);

  -- Two rounds are what correctness needs; the others are for names that somebody's cleanup
  -- collects meanwhile. Bounded, so that a trigger which suppresses rows cannot spin this.
  for v_round in 1 .. 5 loop
    v_task_ids := array(
      select known.id from :SCHEMA._private_tasks as known
      where known.identifier = any (v_identifiers) order by known.identifier collate "C"
    );
    v_queue_ids := array(
      select known.id from :SCHEMA._private_job_queues as known
      where known.queue_name = any (v_queue_names) order by known.queue_name collate "C"
    );
    with names as materialized (
      select (
        select count(*) from :SCHEMA._private_tasks as known where known.id = any (v_task_ids)
      ) = cardinality(v_identifiers) and (
        select count(*) from :SCHEMA._private_job_queues as known where known.id = any (v_queue_ids)
      ) = cardinality(v_queue_names) as complete
    ), stored as (
      -- All or nothing: where a name is missing, no key may be locked before it is made.
      insert into :SCHEMA._private_jobs as job
        (job_queue_id, task_id, payload, run_at, max_attempts, key, priority, flags, revision)
      select
        queue.id, v_task_ids[width_bucket(spec.identifier collate "C", v_identifiers)],
        coalesce(spec.payload, '{}'::json), coalesce(spec.run_at, now()),
        coalesce(spec.max_attempts, 25), spec.job_key, coalesce(spec.priority, 0),
        case when spec.flags is not null then
          (select jsonb_object_agg(flag.name, true) from unnest(spec.flags) as flag(name))
        end,
        coalesce(v_repeats[spec.position], 0)
      from unnest(v_wanted) with ordinality as spec(
        identifier, payload, queue_name, run_at, max_attempts, job_key, priority, flags, position)
      left join :SCHEMA._private_job_queues as queue on queue.queue_name = spec.queue_name
      where (select names.complete from names)
      -- Keys in byte order, so that calls wait for each other in one direction only. Identity
      -- values follow this order too, which is how a job without key finds its spec again.
      order by spec.job_key collate "C" nulls last, spec.position
      on conflict (key) do update set
        job_queue_id = excluded.job_queue_id,
        task_id = excluded.task_id,
        payload = :SCHEMA.django_merge_payloads(job.payload, excluded.payload),
        run_at = case when v_preserve and job.attempts = 0 then job.run_at else excluded.run_at end,
        max_attempts = excluded.max_attempts,
        priority = excluded.priority,
        flags = excluded.flags,
        revision = job.revision + 1 + excluded.revision,
        attempts = 0,
        last_error = null,
        updated_at = now()
      where job.is_available
      returning job.id, job.key
    )
    select names.complete, result.stored, result.matched, result.ids, result.new_ids
    into v_named, v_stored, v_matched, v_ids, v_round_ids
    from names, (
      select
        count(*) as stored, count(spec.position) as matched,
        array_agg(stored.id order by spec.position) as ids,
        array_agg(stored.id order by stored.id) filter (where stored.key is null) as new_ids
      from stored
      left join unnest(v_wanted) with ordinality as spec(
        identifier, payload, queue_name, run_at, max_attempts, job_key, priority, flags, position)
        on spec.job_key = stored.key
    ) as result;

    if not v_named then
      perform :SCHEMA.django_ensure_names(v_identifiers, v_queue_names);
      continue;
    end if;
    v_used_task_ids := v_used_task_ids || v_task_ids;
    v_used_identifiers := v_used_identifiers || v_identifiers;
    v_used_queue_ids := v_used_queue_ids || v_queue_ids;
    v_used_queue_names := v_used_queue_names || v_queue_names;
    v_new_ids := v_new_ids || v_round_ids;
    v_left := v_left - v_stored;
    exit when v_left = 0;

    -- Every holder is locked by us now, so one that is not available stays so: supersede it.
    with holder as materialized (
      select job.id, job.key, job.attempts
      from unnest(v_wanted) as item
      cross join lateral (
        select found.id, found.key, found.attempts, found.is_available
        from :SCHEMA._private_jobs as found
        where found.key = item.job_key
        limit 1
      ) as job
      -- Outside: the index of locked rows would serve this too, and be read whole for each spec.
      where not job.is_available
    ), superseded as (
      update :SCHEMA._private_jobs as job
      set key = null, attempts = job.max_attempts, updated_at = now()
      where job.id = any (array(select holder.id from holder))
    )
    select
      v_superseded_ids || array_agg(holder.id),
      v_superseded_keys || array_agg(holder.key),
      v_superseded_attempts || array_agg(holder.attempts)
    into v_superseded_ids, v_superseded_keys, v_superseded_attempts
    from holder;

    select
      array_agg(cast(row(
        item.identifier, item.payload, item.queue_name, item.run_at, item.max_attempts,
        item.job_key, item.priority, item.flags
      ) as :SCHEMA.job_spec) order by item.position),
      array_agg(v_repeats[item.position] order by item.position)
    into v_wanted, v_repeats
    from unnest(v_wanted) with ordinality as item(
      identifier, payload, queue_name, run_at, max_attempts, job_key, priority, flags, position)
    where item.job_key is not null and (
      select job.id from :SCHEMA._private_jobs as job where job.key = item.job_key limit 1
    ) is null;
  end loop;

  if v_left <> 0 then
    raise exception using
      errcode = 'GWBNR',
      message = format(
        'add_jobs: %s of %s specs got no row, job_key %L among them',
        v_left, cardinality(specs), coalesce((
          select spec.job_key
          from unnest(specs) as spec
          left join :SCHEMA._private_jobs as job on job.key = spec.job_key
          where spec.job_key is not null and (job.id is null or job.updated_at <> now())
          limit 1
        ), (select max(spec.job_key) from unnest(specs) as spec))),
      hint = 'Does a trigger or a policy on the jobs table suppress rows?';
  end if;

  for v_index in 1 .. coalesce(cardinality(v_restarted_keys), 0) loop
    update :SCHEMA._private_jobs as job
    set payload = v_restarted_payloads[v_index]
    where job.key = v_restarted_keys[v_index];
  end loop;

  perform :SCHEMA.django_restore_names(
    v_used_task_ids, v_used_identifiers, v_used_queue_ids, v_used_queue_names);

  if v_superseded_ids is not null then
    perform :SCHEMA.django_record_key_conflicts(
      case when v_preserve then 'preserve_run_at' else 'replace' end,
      v_superseded_keys, v_superseded_ids, v_superseded_attempts);
  end if;

  perform pg_notify('jobs:insert', '{"r":' || random() || ',"count":' || cardinality(specs) || '}');

  -- Repeats, supersedings and jobs without key among others: find the jobs again. The newest holder,
  -- since a snapshot that outlives the statement, as in REPEATABLE READ, can also show one that was
  -- completed since, and whose key was free.
  if v_matched <> cardinality(specs) then
    v_ids := array(
      select
        case
          when spec.job_key is null then v_new_ids[spec.nth_new]
          else (
            select max(holder.id)
            from (
              select job.id from :SCHEMA._private_jobs as job where job.key = spec.job_key offset 0
            ) as holder
          )
        end
      from (
        select
          item.job_key, item.position,
          count(*) filter (where item.job_key is null) over (order by item.position) as nth_new
        from unnest(specs) with ordinality as item(
          identifier, payload, queue_name, run_at, max_attempts, job_key, priority, flags, position)
      ) as spec
      order by spec.position
    );
  end if;

  return query
  select job.*
  from unnest(v_ids) with ordinality as stored(id, position)
  cross join lateral (
    select found.* from :SCHEMA._private_jobs as found where found.id = stored.id limit 1
  ) as job
  order by stored.position;

  -- Fewer rows than specs must not pass for success.
  get diagnostics v_stored = row_count;
  if v_stored <> cardinality(specs) then
    raise exception using
      errcode = 'GWBNR',
      message = format(
        'add_jobs: %s of %s specs have no row, job_key %L among them',
        cardinality(specs) - v_stored, cardinality(specs), (
          select spec.job_key
          from unnest(specs) as spec
          where not exists (select from :SCHEMA._private_jobs as job where job.key = spec.job_key)
          order by spec.job_key nulls last
          limit 1
        )),
      hint = 'Does a trigger on the jobs table change keys or delete rows?';
  end if;
end
$$;
