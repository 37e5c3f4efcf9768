-- Make the schema that stands beside the queue's.
create schema :BESIDE;
