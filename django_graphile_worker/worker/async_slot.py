"""A slot on an event loop: a long-lived coroutine that takes jobs and awaits the task directly.

A job is not made a task of the loop: that would cost more than all else that is done for one.
`asyncio.current_task()` is the slot's; `asyncio.timeout`, task groups and cancelling do with that.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from contextvars import Context
from types import CoroutineType
from typing import Any

from django_graphile_worker import signals
from django_graphile_worker.jobs import LockedJob, Outcome
from django_graphile_worker.worker.async_threads import SlotExecutor
from django_graphile_worker.worker.attempt import AnyTask, ends
from django_graphile_worker.worker.driving import drive
from django_graphile_worker.worker.slots import Surroundings

# After so many jobs in a row that waited for nothing, others on the loop get their turn.
IN_A_ROW = 50


class AsyncSlot:
    """One slot; also its own bell, that any thread may ring."""

    def __init__(
        self, around: Surroundings, number: int, ring: Callable[[AsyncSlot], None]
    ) -> None:
        self._around = around
        self._ring = ring
        self._number = number
        self._rung = False
        self._resting: asyncio.Future[None] | None = None
        self._job: LockedJob | None = None
        self._ended: asyncio.Future[None] | None = None
        self.threads = SlotExecutor(f"graphile_worker slot {number}")

    def release(self) -> None:
        """Ring the bell."""
        self._rung = True
        self._ring(self)

    def wake(self) -> None:
        """Let a slot that was rung for go on; to be called on the loop."""
        if self._resting is not None and not self._resting.done():
            self._resting.set_result(None)

    def cancel(self, job: LockedJob) -> asyncio.Future[None] | None:
        """Cancel the job if the slot still runs it, and return what is done when it has ended."""
        if self._job is not job:
            return None
        self._ended = self._task.get_loop().create_future()
        self._task.cancel("the worker stops")
        return self._ended

    async def work(self) -> None:
        """Take jobs and run them until stopping; begins without a place, so waits to be rung."""
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        await self._rest()
        around, line = self._around, self._around.line
        side = line.asynchronous
        waiting, ready = line.waiting, side.ready
        in_a_row = 0
        dry = False
        while not around.stopping():
            try:
                job = ready.popleft() if ready else waiting.popleft()
            except IndexError:
                if ready:
                    continue  # the one was gone that we saw, but there is another
                if dry:
                    line.on_room()
                    dry = False
                if line.rest(side, self):
                    await self._rest()
                continue
            known = around.find_task(job.task_identifier)
            if known is None or not known.is_async:
                if line.hand_over(job, side, self):
                    await self._rest()
                continue
            line.taken()
            around.begin(self._number, job)
            around.end(self._number, await self._attempt(job, known))
            if self._ended is not None:
                self._ended.cancel()
                self._ended = None
            dry = True
            in_a_row += 1
            if in_a_row >= IN_A_ROW:
                in_a_row = 0
                await self._yield()

    async def _attempt(self, job: LockedJob, task: AnyTask) -> Outcome:
        """Run a job and return what came of it. Never raises."""
        began = time.monotonic()
        attempts = self._around.attempts
        context = attempts.context(job, task, began)
        scope = self.threads.base.copy()
        error: BaseException | None = None
        self._job = job
        try:
            args, kwargs = attempts.arguments(job, task, context)
            if context is None:
                running = scope.run(task.function, *args, **kwargs)
                if not isinstance(running, CoroutineType):
                    running = _await(running)
                result = await drive(scope, running)
            else:
                await drive(scope, signals.asend(signals.job_started, task, context=context))
                result = await self._within_limits(scope, task, context, args, kwargs)
            outcome = attempts.succeeded(job, result, began)
        except BaseException as raised:  # noqa: BLE001 - sys.exit() in a task ends that job only
            outcome = attempts.failed(job, task, raised, began)
            error = raised
        self._job = None
        if self.threads.used or self._task.cancelling():
            await self._settle()
        heard = signals.job_succeeded.receivers or signals.job_failed.receivers
        if context is not None and heard:
            await self._undisturbed(drive(scope, _tell(task, context, outcome, error)))
            await self._settle()
        # Its traceback leads back here, and would keep what the task had in hand.
        error = None
        return outcome

    async def _within_limits(
        self, scope: Context, task: AnyTask, context: Any, args: Any, kwargs: Any
    ) -> Any:
        limit = asyncio.timeout(task.timeout)
        try:
            async with limit:
                call = _call(self._around.attempts.wrapper, task, context, args, kwargs)
                return await drive(scope, call)
        except TimeoutError as error:
            if not limit.expired():
                raise  # the task's own
            raise TimeoutError(f"it took longer than its timeout of {task.timeout:g} s") from error

    async def _settle(self) -> None:
        """End what a job has left behind: wishes to cancel it, and what its sync code left."""
        if self._task.cancelling():
            await self._yield()
        if self.threads.used:
            await self._undisturbed(asyncio.wrap_future(self.threads.clean()))

    async def _rest(self) -> None:
        """Wait until rung."""
        while not self._rung:
            self._resting = self._task.get_loop().create_future()
            try:
                await self._resting
            except asyncio.CancelledError:
                self._task.uncancel()
        self._rung = False

    async def _yield(self) -> None:
        """Give others on the loop their turn, and take in what was meant for an ended job."""
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        while self._task.cancelling():
            self._task.uncancel()

    async def _undisturbed(self, awaitable: Awaitable[Any]) -> None:
        """Wait for something of ours, whoever cancels this task: that was for the job."""
        waiting = asyncio.ensure_future(awaitable)
        while not waiting.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([waiting])
        while self._task.cancelling():
            self._task.uncancel()


async def _await(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


async def _call(wrapper: Any, task: AnyTask, context: Any, args: Any, kwargs: Any) -> Any:
    if wrapper is None:
        return await task.function(*args, **kwargs)
    result = None  # if the wrapper swallows an error
    with wrapper(context):
        result = await task.function(*args, **kwargs)
    return result


async def _tell(task: AnyTask, context: Any, outcome: Outcome, error: BaseException | None) -> None:
    if outcome.error is None:
        await signals.asend(signals.job_succeeded, task, context=context)
    else:
        retry = not ends(outcome)
        await signals.asend(
            signals.job_failed, task, context=context, error=error, will_retry=retry
        )
