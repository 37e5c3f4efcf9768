-- Find since when the job has been due that is so longest. Goes from priority to priority, `most` at
-- most, and looks at the first job of each: to read the index of 1,400,000 jobs took 250 ms. Locks
-- nothing. Returns one row: the time, and that one's run_at, in seconds since 1970.
with recursive
line as (
  (
    select job.priority, job.run_at, 1 as number
    from :SCHEMA._private_jobs as job
    where job.is_available = true
    order by job.priority, job.run_at
    limit 1
  )
  union all
  select following.priority, following.run_at, line.number + 1
  from line
  cross join lateral (
    select job.priority, job.run_at
    from :SCHEMA._private_jobs as job
    where job.is_available = true and job.priority > line.priority
    order by job.priority, job.run_at
    limit 1
  ) as following
  where line.number < %(most)s::int
)
select
  extract(epoch from now())::float8,
  extract(epoch from min(line.run_at) filter (where line.run_at <= now()))::float8
from line
