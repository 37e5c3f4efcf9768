-- Drop what 0003 made, and never with cascade.
drop table :SCHEMA.django_statistics;
