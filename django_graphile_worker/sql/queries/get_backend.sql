-- Tell the process number of the backend that answers. Locks nothing. Returns one number.
select pg_backend_pid()
