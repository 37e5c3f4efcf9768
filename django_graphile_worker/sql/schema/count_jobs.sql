-- Count the jobs in every state.
select count(*) from :SCHEMA._private_jobs
