-- Tell the key that a job had until it was superseded, as far as the record goes back. Locks
-- nothing. Returns null for a job that was not superseded.
--
-- Statements over several jobs lock them in the order of their keys, as each of them sees the keys.
-- A job that loses its key between two such statements would have its place at the front for the
-- one and at the end for the other, and they would wait in a circle: so it keeps its place.
create function :SCHEMA.django_former_key(job_id bigint) returns text
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select conflict.key
  from :SCHEMA.django_key_conflicts as conflict
  where conflict.superseded_job_id = job_id
  order by conflict.id
  limit 1
$$;
grant execute on function :SCHEMA.django_former_key(bigint) to public;
