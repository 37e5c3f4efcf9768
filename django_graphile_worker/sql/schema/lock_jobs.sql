-- Keep everybody from the jobs until this transaction ends.
lock table :SCHEMA._private_jobs in access exclusive mode
