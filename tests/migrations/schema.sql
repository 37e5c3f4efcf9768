CREATE SCHEMA graphile_worker;

CREATE TYPE graphile_worker.job_spec AS (
	identifier text,
	payload json,
	queue_name text,
	run_at timestamp with time zone,
	max_attempts smallint,
	job_key text,
	priority smallint,
	flags text[]
);

CREATE TABLE graphile_worker._private_jobs (
    id bigint NOT NULL,
    job_queue_id integer,
    task_id integer NOT NULL,
    payload json DEFAULT '{}'::json NOT NULL,
    priority smallint DEFAULT 0 NOT NULL,
    run_at timestamp with time zone DEFAULT now() NOT NULL,
    attempts smallint DEFAULT 0 NOT NULL,
    max_attempts smallint DEFAULT 25 NOT NULL,
    last_error text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    key text,
    locked_at timestamp with time zone,
    locked_by text,
    revision integer DEFAULT 0 NOT NULL,
    flags jsonb,
    is_available boolean GENERATED ALWAYS AS (((locked_at IS NULL) AND (attempts < max_attempts))) STORED NOT NULL,
    CONSTRAINT jobs_key_check CHECK (((length(key) > 0) AND (length(key) <= 512))),
    CONSTRAINT jobs_max_attempts_check CHECK ((max_attempts >= 1))
);

CREATE FUNCTION graphile_worker.add_job(identifier text, payload json DEFAULT NULL::json, queue_name text DEFAULT NULL::text, run_at timestamp with time zone DEFAULT NULL::timestamp with time zone, max_attempts integer DEFAULT NULL::integer, job_key text DEFAULT NULL::text, priority integer DEFAULT NULL::integer, flags text[] DEFAULT NULL::text[], job_key_mode text DEFAULT 'replace'::text) RETURNS graphile_worker._private_jobs
    LANGUAGE plpgsql
    AS $$
declare
  v_job "graphile_worker"._private_jobs;
  v_one_snapshot constant boolean := current_setting('transaction_isolation') <> 'read committed';
  v_flags jsonb;
  v_lost boolean;
  v_told text;
begin
  if job_key_mode not in ('replace', 'preserve_run_at', 'unsafe_dedupe') then
    raise exception using
      errcode = 'GWBKM',
      message = format('add_job: job_key_mode is %L', job_key_mode),
      hint = 'It must be ''replace'', ''preserve_run_at'' or ''unsafe_dedupe''.';
  end if;
  if identifier is null then
    raise not_null_violation using message = 'add_job: identifier is null';
  end if;
  if v_one_snapshot then
    perform "graphile_worker".django_ensure_names(array[identifier], array[queue_name]);
  end if;
  -- Not a subquery of the inserts: it would be set up for every call, also for those without flags.
  if flags is not null then
    v_flags := (select jsonb_object_agg(flag.name, true) from unnest(add_job.flags) as flag(name));
  end if;

  if job_key is null or job_key_mode is distinct from 'unsafe_dedupe' then
    insert into "graphile_worker"._private_jobs as job
      (job_queue_id, task_id, payload, run_at, max_attempts, key, priority, flags)
    select
      queue.id, task.id, coalesce(add_job.payload, '{}'::json), coalesce(add_job.run_at, now()),
      coalesce(add_job.max_attempts, 25)::smallint, add_job.job_key,
      coalesce(add_job.priority, 0)::smallint, v_flags
    from "graphile_worker"._private_tasks as task
    left join "graphile_worker"._private_job_queues as queue on queue.queue_name = add_job.queue_name
    where task.identifier = add_job.identifier
      and (add_job.queue_name is null or queue.id is not null)
    on conflict (key) do update set
      job_queue_id = excluded.job_queue_id,
      task_id = excluded.task_id,
      payload = "graphile_worker".django_merge_payloads(job.payload, excluded.payload),
      run_at = case
        when add_job.job_key_mode = 'preserve_run_at' and job.attempts = 0 then job.run_at
        else excluded.run_at
      end,
      max_attempts = excluded.max_attempts,
      priority = excluded.priority,
      flags = excluded.flags,
      revision = job.revision + 1,
      attempts = 0,
      last_error = null,
      updated_at = now()
    where job.is_available
    returning job.* into v_job;

    if v_job.id is null then
      select added.* into v_job from "graphile_worker".add_jobs(
        array[cast(row(
          identifier, payload, queue_name, run_at, max_attempts, job_key, priority, flags
        ) as "graphile_worker".job_spec)],
        coalesce(job_key_mode = 'preserve_run_at', false)
      ) as added;
      return v_job;
    end if;
  else
    -- A name can be collected by somebody's cleanup right after it was made: try again, bounded.
    for v_try in 1 .. 4 loop
      insert into "graphile_worker"._private_jobs as job
        (job_queue_id, task_id, payload, run_at, max_attempts, key, priority, flags)
      select
        queue.id, task.id, coalesce(add_job.payload, '{}'::json), coalesce(add_job.run_at, now()),
        coalesce(add_job.max_attempts, 25)::smallint, add_job.job_key,
        coalesce(add_job.priority, 0)::smallint, v_flags
      from "graphile_worker"._private_tasks as task
      left join "graphile_worker"._private_job_queues as queue on queue.queue_name = add_job.queue_name
      where task.identifier = add_job.identifier
        and (add_job.queue_name is null or queue.id is not null)
      on conflict (key) do update set
        revision = job.revision + 1,
        updated_at = now()
      returning job.* into v_job;
      exit when v_job.id is not null;
      perform "graphile_worker".django_ensure_names(array[identifier], array[queue_name]);
    end loop;
    if v_job.id is null then
      raise exception using
        errcode = 'GWBNR',
        message = format('add_job: no row was stored for job_key %L', job_key),
        hint = 'Does a trigger on the jobs table suppress rows?';
    end if;
    if v_job.revision > 0 then
      return v_job;
    end if;
  end if;

  -- The statement may have waited for the key, and a name that it had found been collected. Two
  -- plain lookups: one condition with subqueries costs 65 us more, and 25 us where no key is given.
  if job_key is not null or v_one_snapshot then
    perform from "graphile_worker"._private_tasks as task where task.id = v_job.task_id;
    v_lost := not found;
    if v_job.job_queue_id is not null then
      perform from "graphile_worker"._private_job_queues as queue where queue.id = v_job.job_queue_id;
      v_lost := v_lost or not found;
    end if;
    if v_lost or v_one_snapshot then
      perform "graphile_worker".django_restore_names(
        array[v_job.task_id], array[identifier], array[v_job.job_queue_id], array[queue_name]);
      select job.* into v_job from "graphile_worker"._private_jobs as job where job.id = v_job.id;
    end if;
  end if;

  -- Assigned and not performed, which would be a statement of its own.
  v_told := pg_notify('jobs:insert', '{"r":' || random() || ',"count":1}')::text;
  return v_job;
end
$$;

CREATE FUNCTION graphile_worker.add_jobs(specs graphile_worker.job_spec[], job_key_preserve_run_at boolean DEFAULT false) RETURNS SETOF graphile_worker._private_jobs
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
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
  v_wanted "graphile_worker".job_spec[] := specs;  -- what is still to be stored, each key at most once
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
    perform "graphile_worker".django_ensure_names(v_identifiers, v_queue_names);
  end if;

  -- Without keys nothing can be in the way, and the rows go straight out: reading them again, as
  -- below, would cost a tenth of the call.
  if v_keyed = 0 then
    for v_round in 1 .. 5 loop
      v_task_ids := array(
        select known.id from "graphile_worker"._private_tasks as known
        where known.identifier = any (v_identifiers) order by known.identifier collate "C"
      );
      v_queue_ids := array(
        select known.id from "graphile_worker"._private_job_queues as known
        where known.queue_name = any (v_queue_names) order by known.queue_name collate "C"
      );
      return query
      with stored as (
        insert into "graphile_worker"._private_jobs as job
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
        left join "graphile_worker"._private_job_queues as queue on queue.queue_name = spec.queue_name
        where (
          select count(*) from "graphile_worker"._private_tasks as known
          where known.id = any (v_task_ids)
        ) = cardinality(v_identifiers)
        and (
          select count(*) from "graphile_worker"._private_job_queues as known
          where known.id = any (v_queue_ids)
        ) = cardinality(v_queue_names)
        -- Identity values follow this order, which is how a job finds its spec again.
        order by spec.position
        returning job.*
      )
      select stored.* from stored order by stored.id;

      get diagnostics v_stored = row_count;
      if v_stored = cardinality(specs) then
        perform "graphile_worker".django_restore_names(
          v_task_ids, v_identifiers, v_queue_ids, v_queue_names);
        perform pg_notify('jobs:insert', '{"r":' || random() || ',"count":' || v_stored || '}');
        return;
      end if;
      exit when v_stored > 0;
      perform "graphile_worker".django_ensure_names(v_identifiers, v_queue_names);
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
      ) as "graphile_worker".job_spec) order by wanted.position),
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
      select known.id from "graphile_worker"._private_tasks as known
      where known.identifier = any (v_identifiers) order by known.identifier collate "C"
    );
    v_queue_ids := array(
      select known.id from "graphile_worker"._private_job_queues as known
      where known.queue_name = any (v_queue_names) order by known.queue_name collate "C"
    );
    with names as materialized (
      select (
        select count(*) from "graphile_worker"._private_tasks as known where known.id = any (v_task_ids)
      ) = cardinality(v_identifiers) and (
        select count(*) from "graphile_worker"._private_job_queues as known where known.id = any (v_queue_ids)
      ) = cardinality(v_queue_names) as complete
    ), stored as (
      -- All or nothing: where a name is missing, no key may be locked before it is made.
      insert into "graphile_worker"._private_jobs as job
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
      left join "graphile_worker"._private_job_queues as queue on queue.queue_name = spec.queue_name
      where (select names.complete from names)
      -- Keys in byte order, so that calls wait for each other in one direction only. Identity
      -- values follow this order too, which is how a job without key finds its spec again.
      order by spec.job_key collate "C" nulls last, spec.position
      on conflict (key) do update set
        job_queue_id = excluded.job_queue_id,
        task_id = excluded.task_id,
        payload = "graphile_worker".django_merge_payloads(job.payload, excluded.payload),
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
      perform "graphile_worker".django_ensure_names(v_identifiers, v_queue_names);
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
        from "graphile_worker"._private_jobs as found
        where found.key = item.job_key
        limit 1
      ) as job
      -- Outside: the index of locked rows would serve this too, and be read whole for each spec.
      where not job.is_available
    ), superseded as (
      update "graphile_worker"._private_jobs as job
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
      ) as "graphile_worker".job_spec) order by item.position),
      array_agg(v_repeats[item.position] order by item.position)
    into v_wanted, v_repeats
    from unnest(v_wanted) with ordinality as item(
      identifier, payload, queue_name, run_at, max_attempts, job_key, priority, flags, position)
    where item.job_key is not null and (
      select job.id from "graphile_worker"._private_jobs as job where job.key = item.job_key limit 1
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
          left join "graphile_worker"._private_jobs as job on job.key = spec.job_key
          where spec.job_key is not null and (job.id is null or job.updated_at <> now())
          limit 1
        ), (select max(spec.job_key) from unnest(specs) as spec))),
      hint = 'Does a trigger or a policy on the jobs table suppress rows?';
  end if;

  for v_index in 1 .. coalesce(cardinality(v_restarted_keys), 0) loop
    update "graphile_worker"._private_jobs as job
    set payload = v_restarted_payloads[v_index]
    where job.key = v_restarted_keys[v_index];
  end loop;

  perform "graphile_worker".django_restore_names(
    v_used_task_ids, v_used_identifiers, v_used_queue_ids, v_used_queue_names);

  if v_superseded_ids is not null then
    perform "graphile_worker".django_record_key_conflicts(
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
              select job.id from "graphile_worker"._private_jobs as job where job.key = spec.job_key offset 0
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
    select found.* from "graphile_worker"._private_jobs as found where found.id = stored.id limit 1
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
          where not exists (select from "graphile_worker"._private_jobs as job where job.key = spec.job_key)
          order by spec.job_key nulls last
          limit 1
        )),
      hint = 'Does a trigger on the jobs table change keys or delete rows?';
  end if;
end
$$;

CREATE FUNCTION graphile_worker.complete_jobs(job_ids bigint[]) RETURNS SETOF graphile_worker._private_jobs
    LANGUAGE sql
    AS $$
  with free as materialized (
    select job.id
    from "graphile_worker"._private_jobs as job
    where job.id = any (job_ids)
      and (job.locked_at is null or job.locked_at < now() - interval '4 hours')
    order by
      coalesce(job.key, "graphile_worker".django_former_key(job.id)) collate "C" nulls last, job.id
    for update
  )
  delete from "graphile_worker"._private_jobs as job
  using free
  where job.id = free.id
  returning job.*
$$;

CREATE FUNCTION graphile_worker.django_ensure_names(identifiers text[], queue_names text[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
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
      from "graphile_worker"._private_tasks as known
      where known.identifier = v_name;
      if found then
        insert into "graphile_worker"._private_tasks (id, identifier) overriding system value
        values (v_id, v_name)
        on conflict do nothing;
        v_gone := found;
      else
        insert into "graphile_worker"._private_tasks (identifier) values (v_name)
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
      from "graphile_worker"._private_job_queues as known
      where known.queue_name = v_name;
      if found then
        insert into "graphile_worker"._private_job_queues (id, queue_name) overriding system value
        values (v_id, v_name)
        on conflict do nothing;
        v_gone := found;
      else
        insert into "graphile_worker"._private_job_queues (queue_name) values (v_name)
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

  insert into "graphile_worker"._private_tasks (identifier)
  select distinct wanted.name collate "C"
  from unnest(django_ensure_names.identifiers) as wanted(name)
  where not exists (
    select from "graphile_worker"._private_tasks as known where known.identifier = wanted.name
  )
  order by 1
  on conflict (identifier) do nothing;

  insert into "graphile_worker"._private_job_queues (queue_name)
  select distinct wanted.name collate "C"
  from unnest(django_ensure_names.queue_names) as wanted(name)
  where wanted.name is not null and not exists (
    select from "graphile_worker"._private_job_queues as known where known.queue_name = wanted.name
  )
  order by 1
  on conflict (queue_name) do nothing;
end
$$;

CREATE FUNCTION graphile_worker.django_former_key(job_id bigint) RETURNS text
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  select conflict.key
  from "graphile_worker".django_key_conflicts as conflict
  where conflict.superseded_job_id = job_id
  order by conflict.id
  limit 1
$$;

CREATE FUNCTION graphile_worker.django_merge_payloads(older json, newer json) RETURNS json
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
  select case
    when json_typeof(older) <> 'array' or json_typeof(newer) <> 'array' then newer
    when json_array_length(older) = 0 then newer
    when json_array_length(newer) = 0 then older
    else (
      left(rtrim(older::text, E' \t\n\r'), -1) || ','
      || substr(ltrim(newer::text, E' \t\n\r'), 2)
    )::json
  end
$$;

CREATE FUNCTION graphile_worker.django_record_key_conflicts(mode text, keys text[], superseded_ids bigint[], superseded_attempts smallint[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    AS $$
declare
  v_newest bigint;
begin
  with recorded as (
    insert into "graphile_worker".django_key_conflicts as conflict (
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
      select found.* from "graphile_worker"._private_jobs as found where found.id = change.id limit 1
    ) as old
    cross join lateral (
      select found.* from "graphile_worker"._private_jobs as found where found.key = change.key limit 1
    ) as new
    left join "graphile_worker"._private_tasks as old_task on old_task.id = old.task_id
    left join "graphile_worker"._private_tasks as new_task on new_task.id = new.task_id
    where old.key is null and old.attempts = old.max_attempts
      and not exists (
        select from "graphile_worker".django_key_conflicts as known where known.superseded_job_id = old.id
      )
    returning conflict.id
  )
  select max(recorded.id) into v_newest from recorded;

  -- Twice as many as were added, so that a record that has grown too long shrinks again.
  delete from "graphile_worker".django_key_conflicts as conflict
  where conflict.id = any (array(
    select oldest.id
    from "graphile_worker".django_key_conflicts as oldest
    where oldest.id <= v_newest - 100000
    order by oldest.id
    limit 2 * cardinality(django_record_key_conflicts.keys)
    for update skip locked
  ));
end
$$;

CREATE FUNCTION graphile_worker.django_restore_names(task_ids integer[], identifiers text[], queue_ids integer[], queue_names text[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    perform "graphile_worker".django_ensure_names(identifiers, queue_names);
    return;
  end if;

  if not exists (
    select from unnest(django_restore_names.task_ids) as used(id)
    where used.id is not null and not exists (
      select from "graphile_worker"._private_tasks as task where task.id = used.id)
  ) and not exists (
    select from unnest(django_restore_names.queue_ids) as used(id)
    where used.id is not null and not exists (
      select from "graphile_worker"._private_job_queues as queue where queue.id = used.id)
  ) then
    return;
  end if;

  insert into "graphile_worker"._private_tasks (id, identifier) overriding system value
  select lost.id, lost.name
  from unnest(django_restore_names.task_ids, django_restore_names.identifiers) as lost(id, name)
  where lost.id is not null
  order by lost.name collate "C"
  on conflict do nothing;

  insert into "graphile_worker"._private_job_queues (id, queue_name) overriding system value
  select lost.id, lost.name
  from unnest(django_restore_names.queue_ids, django_restore_names.queue_names) as lost(id, name)
  where lost.id is not null
  order by lost.name collate "C"
  on conflict do nothing;

  with mine as materialized (
    select job.id, task.id as task_id
    from unnest(django_restore_names.task_ids, django_restore_names.identifiers) as lost(id, name)
    join "graphile_worker"._private_tasks as task on task.identifier = lost.name and task.id <> lost.id
    join "graphile_worker"._private_jobs as job on job.task_id = lost.id
    for update of job skip locked
  )
  update "graphile_worker"._private_jobs as job set task_id = mine.task_id from mine where job.id = mine.id;

  with mine as materialized (
    select job.id, queue.id as queue_id
    from unnest(django_restore_names.queue_ids, django_restore_names.queue_names) as lost(id, name)
    join "graphile_worker"._private_job_queues as queue
      on queue.queue_name = lost.name and queue.id <> lost.id
    join "graphile_worker"._private_jobs as job on job.job_queue_id = lost.id
    for update of job skip locked
  )
  update "graphile_worker"._private_jobs as job set job_queue_id = mine.queue_id from mine where job.id = mine.id;
end
$$;

CREATE FUNCTION graphile_worker.force_unlock_workers(worker_ids text[]) RETURNS void
    LANGUAGE sql
    AS $$
  -- `is_available = false` lets the small index of locked rows serve this.
  with held as materialized (
    select job.id
    from "graphile_worker"._private_jobs as job
    where job.is_available = false and job.locked_by = any (worker_ids)
    order by
      coalesce(job.key, "graphile_worker".django_former_key(job.id)) collate "C" nulls last, job.id
    for update
  )
  update "graphile_worker"._private_jobs as job
  set locked_at = null, locked_by = null
  from held
  where job.id = held.id;

  with held as materialized (
    select queue.id
    from "graphile_worker"._private_job_queues as queue
    where queue.locked_by = any (worker_ids)
    order by queue.id
    for update
  )
  update "graphile_worker"._private_job_queues as queue
  set locked_at = null, locked_by = null
  from held
  where queue.id = held.id;
$$;

CREATE FUNCTION graphile_worker.permanently_fail_jobs(job_ids bigint[], error_message text DEFAULT NULL::text) RETURNS SETOF graphile_worker._private_jobs
    LANGUAGE sql
    AS $$
  with free as materialized (
    select job.id
    from "graphile_worker"._private_jobs as job
    where job.id = any (job_ids)
      and (job.locked_at is null or job.locked_at < now() - interval '4 hours')
    order by
      coalesce(job.key, "graphile_worker".django_former_key(job.id)) collate "C" nulls last, job.id
    for update
  )
  update "graphile_worker"._private_jobs as job
  set
    last_error = coalesce(error_message, 'Manually marked as failed'),
    attempts = job.max_attempts,
    updated_at = now()
  from free
  where job.id = free.id
  returning job.*
$$;

CREATE FUNCTION graphile_worker.remove_job(job_key text) RETURNS graphile_worker._private_jobs
    LANGUAGE plpgsql STRICT
    AS $$
declare
  v_job "graphile_worker"._private_jobs;
begin
  -- The holder can be superseded or completed while we wait for it; the key may then have a new
  -- one, which only the next statement sees. Each round waits for at least one other transaction.
  for v_round in 1 .. 100 loop
    perform from "graphile_worker"._private_jobs as job where job.key = remove_job.job_key;
    if not found then
      return null;
    end if;

    select job.* into v_job
    from "graphile_worker"._private_jobs as job
    where job.key = remove_job.job_key
    for update;
    continue when not found;

    if v_job.locked_at is null or v_job.locked_at < now() - interval '4 hours' then
      delete from "graphile_worker"._private_jobs as job where job.id = v_job.id;
      perform pg_notify('jobs:insert', '{"r":' || random() || ',"count":-1}');
    else
      update "graphile_worker"._private_jobs as job
      set key = null, attempts = job.max_attempts, updated_at = now()
      where job.id = v_job.id
      returning job.* into v_job;
    end if;
    return v_job;
  end loop;

  raise exception using
    errcode = 'GWBNR',
    message = format('remove_job: the holder of job_key %L changed a hundred times', job_key);
end
$$;

CREATE FUNCTION graphile_worker.reschedule_jobs(job_ids bigint[], run_at timestamp with time zone DEFAULT NULL::timestamp with time zone, priority integer DEFAULT NULL::integer, attempts integer DEFAULT NULL::integer, max_attempts integer DEFAULT NULL::integer) RETURNS SETOF graphile_worker._private_jobs
    LANGUAGE sql
    AS $$
  with free as materialized (
    select job.id
    from "graphile_worker"._private_jobs as job
    where job.id = any (job_ids)
      and (job.locked_at is null or job.locked_at < now() - interval '4 hours')
    order by
      coalesce(job.key, "graphile_worker".django_former_key(job.id)) collate "C" nulls last, job.id
    for update
  )
  update "graphile_worker"._private_jobs as job
  set
    run_at = coalesce(reschedule_jobs.run_at, job.run_at),
    priority = coalesce(reschedule_jobs.priority::smallint, job.priority),
    attempts = coalesce(reschedule_jobs.attempts::smallint, job.attempts),
    max_attempts = coalesce(reschedule_jobs.max_attempts::smallint, job.max_attempts),
    updated_at = now()
  from free
  where job.id = free.id
  returning job.*
$$;

CREATE TABLE graphile_worker._private_job_queues (
    id integer NOT NULL,
    queue_name text NOT NULL,
    locked_at timestamp with time zone,
    locked_by text,
    is_available boolean GENERATED ALWAYS AS ((locked_at IS NULL)) STORED NOT NULL,
    CONSTRAINT job_queues_queue_name_check CHECK ((length(queue_name) <= 128))
);

CREATE TABLE graphile_worker._private_known_crontabs (
    identifier text NOT NULL,
    known_since timestamp with time zone NOT NULL,
    last_execution timestamp with time zone
);

CREATE TABLE graphile_worker._private_tasks (
    id integer NOT NULL,
    identifier text NOT NULL,
    CONSTRAINT tasks_identifier_check CHECK ((length(identifier) <= 128))
);

CREATE TABLE graphile_worker.django_installation (
    id integer DEFAULT 1 NOT NULL,
    functions_version integer NOT NULL,
    origin text NOT NULL,
    schema_created boolean NOT NULL,
    installed_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT django_installation_id_check CHECK ((id = 1)),
    CONSTRAINT django_installation_origin_check CHECK ((origin = ANY (ARRAY['installed'::text, 'adopted'::text])))
);

CREATE TABLE graphile_worker.django_job_errors (
    id bigint NOT NULL,
    job_id bigint NOT NULL,
    task_identifier text NOT NULL,
    attempt smallint NOT NULL,
    max_attempts smallint NOT NULL,
    error text NOT NULL,
    worker_id text,
    locked_at timestamp with time zone,
    failed_at timestamp with time zone DEFAULT now() NOT NULL
);

ALTER TABLE graphile_worker.django_job_errors ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME graphile_worker.django_job_errors_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE graphile_worker.django_key_conflicts (
    id bigint NOT NULL,
    recorded_at timestamp with time zone DEFAULT now() NOT NULL,
    key text NOT NULL,
    mode text NOT NULL,
    superseded_job_id bigint NOT NULL,
    superseded_task text,
    superseded_state text NOT NULL,
    superseded_attempts smallint NOT NULL,
    superseded_max_attempts smallint NOT NULL,
    superseded_locked_by text,
    superseded_locked_at timestamp with time zone,
    successor_job_id bigint NOT NULL,
    successor_task text,
    outcome text,
    finished_at timestamp with time zone,
    CONSTRAINT django_key_conflicts_outcome_check CHECK ((outcome = ANY (ARRAY['completed'::text, 'failed'::text, 'returned'::text]))),
    CONSTRAINT django_key_conflicts_superseded_state_check CHECK ((superseded_state = ANY (ARRAY['locked'::text, 'failed'::text])))
);

ALTER TABLE graphile_worker.django_key_conflicts ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME graphile_worker.django_key_conflicts_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE graphile_worker.django_renewed_locks (
    job_id bigint NOT NULL,
    queue_id integer,
    worker_id text NOT NULL,
    taken_at timestamp with time zone NOT NULL,
    locked_at timestamp with time zone NOT NULL
);

CREATE TABLE graphile_worker.django_replaced_functions (
    name text NOT NULL,
    definition text NOT NULL,
    replaced_at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE graphile_worker.django_statistics (
    id bigint NOT NULL,
    minute timestamp with time zone NOT NULL,
    task_identifier text NOT NULL,
    succeeded bigint NOT NULL,
    retried bigint NOT NULL,
    failed bigint NOT NULL,
    waits bigint[] NOT NULL,
    runs bigint[] NOT NULL
);

ALTER TABLE graphile_worker.django_statistics ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME graphile_worker.django_statistics_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE graphile_worker.django_workers (
    worker_id text NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    concurrency integer NOT NULL,
    started_at timestamp with time zone DEFAULT now() NOT NULL,
    last_beat_at timestamp with time zone DEFAULT now() NOT NULL,
    watching_since timestamp with time zone DEFAULT now() NOT NULL,
    heartbeat interval NOT NULL,
    stale_after interval NOT NULL,
    stopping_at timestamp with time zone,
    dead_at timestamp with time zone,
    CONSTRAINT django_workers_worker_id_check CHECK (((char_length(worker_id) >= 1) AND (char_length(worker_id) <= 100)))
);

ALTER TABLE graphile_worker._private_job_queues ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME graphile_worker.job_queues_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE VIEW graphile_worker.jobs AS
 SELECT jobs.id,
    job_queues.queue_name,
    tasks.identifier AS task_identifier,
    jobs.priority,
    jobs.run_at,
    jobs.attempts,
    jobs.max_attempts,
    jobs.last_error,
    jobs.created_at,
    jobs.updated_at,
    jobs.key,
    jobs.locked_at,
    jobs.locked_by,
    jobs.revision,
    jobs.flags
   FROM ((graphile_worker._private_jobs jobs
     JOIN graphile_worker._private_tasks tasks ON ((tasks.id = jobs.task_id)))
     LEFT JOIN graphile_worker._private_job_queues job_queues ON ((job_queues.id = jobs.job_queue_id)));

ALTER TABLE graphile_worker._private_jobs ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME graphile_worker.jobs_id_seq1
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE graphile_worker.migrations (
    id integer NOT NULL,
    ts timestamp with time zone DEFAULT now() NOT NULL,
    breaking boolean DEFAULT false NOT NULL
);

ALTER TABLE graphile_worker._private_tasks ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME graphile_worker.tasks_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE ONLY graphile_worker.django_installation
    ADD CONSTRAINT django_installation_pkey PRIMARY KEY (id);

ALTER TABLE ONLY graphile_worker.django_job_errors
    ADD CONSTRAINT django_job_errors_pkey PRIMARY KEY (id);

ALTER TABLE ONLY graphile_worker.django_key_conflicts
    ADD CONSTRAINT django_key_conflicts_pkey PRIMARY KEY (id);

ALTER TABLE ONLY graphile_worker.django_renewed_locks
    ADD CONSTRAINT django_renewed_locks_pkey PRIMARY KEY (job_id);

ALTER TABLE ONLY graphile_worker.django_replaced_functions
    ADD CONSTRAINT django_replaced_functions_pkey PRIMARY KEY (name);

ALTER TABLE ONLY graphile_worker.django_statistics
    ADD CONSTRAINT django_statistics_minute_task_identifier_key UNIQUE (minute, task_identifier);

ALTER TABLE ONLY graphile_worker.django_statistics
    ADD CONSTRAINT django_statistics_pkey PRIMARY KEY (id);

ALTER TABLE ONLY graphile_worker.django_workers
    ADD CONSTRAINT django_workers_pkey PRIMARY KEY (worker_id);

ALTER TABLE ONLY graphile_worker._private_job_queues
    ADD CONSTRAINT job_queues_pkey1 PRIMARY KEY (id);

ALTER TABLE ONLY graphile_worker._private_job_queues
    ADD CONSTRAINT job_queues_queue_name_key UNIQUE (queue_name);

ALTER TABLE ONLY graphile_worker._private_jobs
    ADD CONSTRAINT jobs_key_key1 UNIQUE (key);

ALTER TABLE ONLY graphile_worker._private_jobs
    ADD CONSTRAINT jobs_pkey1 PRIMARY KEY (id);

ALTER TABLE ONLY graphile_worker._private_known_crontabs
    ADD CONSTRAINT known_crontabs_pkey PRIMARY KEY (identifier);

ALTER TABLE ONLY graphile_worker.migrations
    ADD CONSTRAINT migrations_pkey PRIMARY KEY (id);

ALTER TABLE ONLY graphile_worker._private_tasks
    ADD CONSTRAINT tasks_identifier_key UNIQUE (identifier);

ALTER TABLE ONLY graphile_worker._private_tasks
    ADD CONSTRAINT tasks_pkey PRIMARY KEY (id);

CREATE INDEX django_job_errors_job ON graphile_worker.django_job_errors USING btree (job_id);

CREATE INDEX django_jobs_locked ON graphile_worker._private_jobs USING btree (locked_at) WHERE (is_available = false);

CREATE INDEX django_jobs_queue ON graphile_worker._private_jobs USING btree (job_queue_id, priority, run_at) WHERE ((is_available = true) AND (job_queue_id IS NOT NULL));

CREATE INDEX django_jobs_task ON graphile_worker._private_jobs USING btree (task_id, priority, run_at) WHERE ((is_available = true) AND (job_queue_id IS NULL));

CREATE INDEX django_key_conflicts_superseded ON graphile_worker.django_key_conflicts USING btree (superseded_job_id);

CREATE INDEX jobs_main_index ON graphile_worker._private_jobs USING btree (priority, run_at) INCLUDE (id, task_id, job_queue_id) WHERE (is_available = true);

CREATE INDEX jobs_no_queue_index ON graphile_worker._private_jobs USING btree (priority, run_at) INCLUDE (id, task_id) WHERE ((is_available = true) AND (job_queue_id IS NULL));

ALTER TABLE graphile_worker._private_job_queues ENABLE ROW LEVEL SECURITY;

ALTER TABLE graphile_worker._private_jobs ENABLE ROW LEVEL SECURITY;

ALTER TABLE graphile_worker._private_known_crontabs ENABLE ROW LEVEL SECURITY;

ALTER TABLE graphile_worker._private_tasks ENABLE ROW LEVEL SECURITY;
