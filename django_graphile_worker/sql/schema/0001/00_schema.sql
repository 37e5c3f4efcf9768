-- Make the schema itself; left out where an administrator has made an empty one for us.
create schema :SCHEMA;
