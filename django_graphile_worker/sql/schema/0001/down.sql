-- Drop what 0001 made, piece by piece and never with cascade: an object of somebody else that
-- depends on one of ours stops this with an error that names it.
drop function :SCHEMA.add_job(
  text, json, text, timestamptz, int, text, int, text[], text);
drop function :SCHEMA.add_jobs(:SCHEMA.job_spec[], boolean);
drop function :SCHEMA.remove_job(text);
drop function :SCHEMA.complete_jobs(bigint[]);
drop function :SCHEMA.permanently_fail_jobs(bigint[], text);
drop function :SCHEMA.reschedule_jobs(bigint[], timestamptz, int, int, int);
drop function :SCHEMA.force_unlock_workers(text[]);
drop function :SCHEMA.django_ensure_names(text[], text[]);
drop function :SCHEMA.django_former_key(bigint);
drop function :SCHEMA.django_restore_names(int[], text[], int[], text[]);
drop function :SCHEMA.django_record_key_conflicts(text, text[], bigint[], smallint[]);
drop function :SCHEMA.django_merge_payloads(json, json);
drop table :SCHEMA.django_key_conflicts;
drop table :SCHEMA.django_replaced_functions;
drop table :SCHEMA.django_installation;
drop view :SCHEMA.jobs;
drop type :SCHEMA.job_spec;
drop table :SCHEMA._private_jobs;
drop table :SCHEMA._private_job_queues;
drop table :SCHEMA._private_tasks;
drop table :SCHEMA._private_known_crontabs;
drop table :SCHEMA.migrations;
