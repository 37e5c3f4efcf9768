"""Slots that are threads: long-lived, they take sync jobs and run them."""

from __future__ import annotations

import threading
import time
from typing import Any

from asgiref.sync import async_to_sync

from django_graphile_worker import signals
from django_graphile_worker.jobs import LockedJob, Outcome
from django_graphile_worker.worker import hygiene
from django_graphile_worker.worker.async_threads import SlotExecutor
from django_graphile_worker.worker.attempt import AnyTask, ends, report_late
from django_graphile_worker.worker.deadlines import Deadlines
from django_graphile_worker.worker.slots import Surroundings


class SyncSlots:
    """`run(number)` is what each of the threads does, `watch()` what one more does for all."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._woken = threading.Event()
        self._deadlines = Deadlines(
            on_late=lambda late: report_late(*late), wait=self._woken.wait, wake=self._woken.set
        )

    def wake(self) -> None:
        """Let `watch()` see that it is stopping."""
        self._woken.set()

    def watch(self) -> None:
        """Watch over timeouts until stopping, and until no job with one is left."""
        while not self._around.stopping() or self._deadlines:
            self._woken.clear()
            self._deadlines.watch()

    def run(self, number: int) -> None:
        """Take jobs and run them until stopping; begins with a place."""
        # For loops that a task runs itself; hardly any does.
        threads = SlotExecutor(f"graphile_worker slot {number}")
        try:
            self._run(number, threads)
        finally:
            hygiene.close_connections()
            threads.close()

    def _run(self, number: int, threads: SlotExecutor) -> None:
        around = self._around
        line, side = around.line, around.line.sync
        waiting, ready = line.waiting, side.ready
        bell = threading.Lock()
        bell.acquire()
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
                if line.rest(side, bell):
                    bell.acquire()
                continue
            task = around.find_task(job.task_identifier)
            if task is not None and task.is_async:
                if line.hand_over(job, side, bell):
                    bell.acquire()
                continue
            line.taken()
            around.begin(number, job)
            around.end(number, self._attempt(number, job, task, threads))
            dry = True

    def _attempt(
        self, slot: int, job: LockedJob, task: AnyTask | None, threads: SlotExecutor
    ) -> Outcome:
        """Run a job in this thread and return what came of it. Never raises."""
        began = time.monotonic()
        attempts = self._around.attempts
        context = attempts.context(job, task, began)
        scope = threads.base.copy()
        error: BaseException | None = None
        hygiene.before_job()
        try:
            args, kwargs = attempts.arguments(job, task, context)
            assert task is not None
            if context is None:
                result = scope.run(task.function, *args, **kwargs)
            else:
                if task.timeout is not None:
                    self._deadlines.set(slot, began + task.timeout, (job, task.timeout))
                scope.run(signals.send, signals.job_started, task, context=context)
                result = scope.run(self._call, task, context, args, kwargs)
            if result is not None and hasattr(result, "__await__"):
                result = scope.run(_run_awaitable, result)
            outcome = attempts.succeeded(job, result, began)
        except BaseException as raised:  # noqa: BLE001 - sys.exit() in a task ends that job only
            outcome = attempts.failed(job, task, raised, began)
            error = raised
        _clean(threads)
        if context is not None:
            self._deadlines.take_away(slot)
            if self._around.stopping():
                self._woken.set()
            scope.run(_tell, task, context, outcome, error)
            _clean(threads)
        # Its traceback leads back here, and would keep what the task had in hand.
        error = None
        return outcome

    def _call(self, task: AnyTask, context: Any, args: Any, kwargs: Any) -> Any:
        if self._around.attempts.wrapper is None:
            return task.function(*args, **kwargs)
        result = None  # if the wrapper swallows an error
        with self._around.attempts.wrapper(context):
            result = task.function(*args, **kwargs)
            if hasattr(result, "__await__"):
                result = _run_awaitable(result)
        return result


def _clean(threads: SlotExecutor) -> None:
    hygiene.after_job()
    if threads.used:
        threads.clean().result()


def _tell(
    task: AnyTask | None, context: Any, outcome: Outcome, error: BaseException | None
) -> None:
    if outcome.error is None:
        signals.send(signals.job_succeeded, task, context=context)
    else:
        signals.send(
            signals.job_failed, task, context=context, error=error, will_retry=not ends(outcome)
        )


def _run_awaitable(awaitable: Any) -> Any:
    """Run what a sync function returned, such as one that decorates an async one."""
    result, error = async_to_sync(_result_of)(awaitable)
    if error is not None:
        raise error
    return result


async def _result_of(awaitable: Any) -> tuple[Any, BaseException | None]:
    # Not raised through async_to_sync: its frames, and with them the thread of its event loop,
    # would live as long as somebody keeps the traceback.
    try:
        return await awaitable, None
    except BaseException as error:  # noqa: BLE001 - raised again by the caller
        return None, error
