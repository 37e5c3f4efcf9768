-- Return what a keyed job's payload becomes: both arrays (batches) are joined, else the newer wins.
--
-- The text is joined, not jsonb: what another language stored (a NUL escape, a lone surrogate, a
-- number beyond numeric's reach, a duplicate key) must pass through unread and unchanged. STABLE
-- and no more, since json's input function is: an IMMUTABLE label would keep the planner from
-- inlining the body, which doubles the cost of adding to keys that are held.
create function :SCHEMA.django_merge_payloads(older json, newer json) returns json
language sql stable parallel safe as $$
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
grant execute on function :SCHEMA.django_merge_payloads(json, json) to public;
