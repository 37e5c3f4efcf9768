-- Drop what 0001 made that is ours alone, never with cascade. In a schema that another installer made
-- that is all: what that one made, and its jobs, stay.
drop index :SCHEMA.django_jobs_locked;
drop function :SCHEMA.django_ensure_names(text[], text[]);
drop function :SCHEMA.django_former_key(bigint);
drop function :SCHEMA.django_restore_names(int[], text[], int[], text[]);
drop function :SCHEMA.django_record_key_conflicts(text, text[], bigint[], smallint[]);
drop function :SCHEMA.django_merge_payloads(json, json);
drop table :SCHEMA.django_key_conflicts;
drop table :SCHEMA.django_replaced_functions;
drop table :SCHEMA.django_installation;
