-- Drop the schema that our migration made; fails when somebody else's object is still in it.
drop schema :SCHEMA
