-- Let each statement of this transaction see what has been committed by then. It must be the first.
set transaction isolation level read committed
