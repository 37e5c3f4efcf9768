-- Write down how superseded jobs have ended. Locks their records with skip locked: waits for
-- nobody, and a record that is being trimmed may go without. Returns how many were written.
--
-- A statement of its own, after the one that ended the jobs: the superseding may have been
-- committed after that one had begun, which then could not see the record.
with
mine as materialized (
  select conflict.id
  from :SCHEMA.django_key_conflicts as conflict
  where conflict.superseded_job_id = any (%(job_ids)s::bigint[]) and conflict.outcome is null
  for update skip locked
),
finished as (
  update :SCHEMA.django_key_conflicts as conflict
  set outcome = %(outcome)s, finished_at = now()
  where conflict.id = any (array(select mine.id from mine))
  returning conflict.id
)
select count(*) from finished
