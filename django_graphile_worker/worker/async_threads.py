"""Threads in which the sync code of async tasks runs, with clean connections."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Context
from typing import Any, ParamSpec, TypeVar

from asgiref.sync import SyncToAsync, ThreadSensitiveContext

from django_graphile_worker.worker import hygiene

P = ParamSpec("P")
T = TypeVar("T")


class SlotExecutor(ThreadPoolExecutor):
    """One thread for the `sync_to_async` code of a slot's jobs; it begins when first needed.

    Sync code of async code, the ORM above all, finds it through `base`, the context that each job
    gets a copy of. So jobs that run at the same time do not share a connection, nor wait for each
    other, and nothing gets into the thread that asgiref has for the whole process, whose
    connections nobody would clean.

    `used` tells whether it was needed since the last `clean()`.
    """

    def __init__(self, name: str) -> None:
        super().__init__(max_workers=1, thread_name_prefix=name)
        self.used = False
        self._ever_used = False
        self.base = Context()
        self._sensitive = ThreadSensitiveContext()
        self.base.run(SyncToAsync.thread_sensitive_context.set, self._sensitive)
        SyncToAsync.context_to_thread_executor[self._sensitive] = self

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        if not self.used:
            self.used = self._ever_used = True
            super().submit(hygiene.before_job)
        return super().submit(fn, *args, **kwargs)

    def clean(self) -> Future[None]:
        """End what a job has left behind, after what still runs there."""
        self.used = False
        return super().submit(hygiene.after_job)

    def close(self) -> None:
        """End the thread and its connections; waits for what runs there."""
        if self._ever_used:
            super().submit(hygiene.close_connections)
        self.shutdown()
        # It is kept by what it keeps itself.
        SyncToAsync.context_to_thread_executor.pop(self._sensitive, None)


class CleaningExecutor(ThreadPoolExecutor):
    """The loop's own threads, for `asyncio.to_thread`; they keep no connection from call to call.

    Nobody could close it later: which of them takes a call, and when it ends, is chance.
    """

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        return super().submit(_call_and_close, fn, args, kwargs)


def _call_and_close(fn: Callable[..., T], args: Any, kwargs: Any) -> T:
    hygiene.before_job()
    try:
        return fn(*args, **kwargs)
    finally:
        hygiene.close_connections()
