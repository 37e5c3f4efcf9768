"""The event loop of async tasks, and the slots on it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Mapping
from typing import Any

from django_graphile_worker.jobs import LockedJob
from django_graphile_worker.worker.async_slot import AsyncSlot
from django_graphile_worker.worker.async_threads import CleaningExecutor
from django_graphile_worker.worker.slots import Surroundings

logger = logging.getLogger("graphile_worker")

# How long cancelled jobs get to end, and what else is left on the loop, in seconds.
MOMENT = 1.0


class AsyncSlots:
    """`count` slots, numbered from `first`, on a loop that begins when the first is rung for."""

    def __init__(self, around: Surroundings, *, first: int, count: int) -> None:
        self._around = around
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wanted = threading.Event()
        self._slots = {
            number: AsyncSlot(around, number, self._ring) for number in range(first, first + count)
        }
        around.line.asynchronous.parked.extend(self._slots.values())

    def wake(self) -> None:
        """Begin, if it has not begun; or end, if it is stopping."""
        self._wanted.set()

    def run(self) -> None:
        """Wait until there is something to do, and run the loop until stopping."""
        self._wanted.wait()
        if self._around.stopping():
            return
        with contextlib.closing(asyncio.new_event_loop()) as loop:
            threads = CleaningExecutor(thread_name_prefix="graphile_worker to_thread")
            loop.set_default_executor(threads)
            self._loop = loop
            try:
                _run_to_end(loop, loop.create_task(self._work()))
            finally:
                _run_to_end(loop, loop.create_task(_clear(loop)))
                for slot in self._all():
                    slot.threads.close()
                threads.shutdown(cancel_futures=True)

    async def _work(self) -> None:
        # Cancelled only by a job that cancels all there is on its loop; the slots outlive that.
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*[slot.work() for slot in self._all()])

    def cancel(self, jobs: Mapping[int, LockedJob]) -> None:
        """Cancel jobs that run in these slots, and wait for a moment until they have ended."""
        if self._loop is None or not jobs:
            return
        slots = [(self._slots[number], job) for number, job in jobs.items()]
        with contextlib.suppress(RuntimeError):  # the loop is closed: all have ended
            asked = asyncio.run_coroutine_threadsafe(_cancel(slots), self._loop)
            with contextlib.suppress(BaseException):
                asked.result(MOMENT)

    def _ring(self, slot: AsyncSlot) -> None:
        if self._loop is None:
            self.wake()
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(slot.wake)

    def _all(self) -> list[AsyncSlot]:
        return list(self._slots.values())


async def _cancel(jobs: list[tuple[AsyncSlot, LockedJob]]) -> None:
    endings = [slot.cancel(job) for slot, job in jobs]
    if waiting := [ending for ending in endings if ending is not None]:
        await asyncio.wait(waiting)


def _run_to_end(loop: asyncio.AbstractEventLoop, work: asyncio.Future[Any]) -> None:
    while not work.done():
        try:
            loop.run_until_complete(work)
        except (SystemExit, KeyboardInterrupt):
            # Raised by a task that a job has created, and let through by the loop, which goes on.
            # Whoever awaits that task is told by it.
            if work.done():
                raise
            logger.exception("A task on the event loop ended in an error.")
        except RuntimeError:
            if work.done():
                raise
            # A job has called `stop()`; it would end all others.
            logger.exception("A task has stopped the event loop; it goes on.")


async def _clear(loop: asyncio.AbstractEventLoop) -> None:
    """End what jobs have left on the loop."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel("the worker stops")
    if left:
        await asyncio.wait(left, timeout=MOMENT)
    await loop.shutdown_asyncgens()
