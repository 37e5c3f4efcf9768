-- Drop what 0001 made and Graphile Worker knows, piece by piece and never with cascade: an object of
-- somebody else that depends on one of ours stops this with an error that names it. What is ours
-- alone goes before, by drop_additions.sql.
drop function :SCHEMA.add_job(
  text, json, text, timestamptz, int, text, int, text[], text);
drop function :SCHEMA.add_jobs(:SCHEMA.job_spec[], boolean);
drop function :SCHEMA.remove_job(text);
drop function :SCHEMA.complete_jobs(bigint[]);
drop function :SCHEMA.permanently_fail_jobs(bigint[], text);
drop function :SCHEMA.reschedule_jobs(bigint[], timestamptz, int, int, int);
drop function :SCHEMA.force_unlock_workers(text[]);
drop view :SCHEMA.jobs;
drop type :SCHEMA.job_spec;
drop table :SCHEMA._private_jobs;
drop table :SCHEMA._private_job_queues;
drop table :SCHEMA._private_tasks;
drop table :SCHEMA._private_known_crontabs;
drop table :SCHEMA.migrations;
