"""The worker: parts that do not know each other, and the pool that puts them together.

`listener` hears of new jobs, `fetcher` takes them, `executor` runs them, `completer` writes down
how they ended. Each is a `service.Service`. Only `pool.py` imports them; it hands each the
callables it needs. Nothing here waits for a database row that somebody else has locked.
"""
