"""Task identifiers and the functions behind them; the `@task` decorator.

Only what was registered here can ever run: a stored identifier is looked up, never imported.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar, Generic, ParamSpec, TypeVar, Unpack, cast, overload

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.utils.module_loading import autodiscover_modules

from django_graphile_worker import validation
from django_graphile_worker.exceptions import (
    InvalidTask,
    TaskAlreadyRegistered,
    seconds,
)
from django_graphile_worker.jobs import EnqueuedJob, JobOptions
from django_graphile_worker.signatures import PayloadSignature, name_of, place_of

P = ParamSpec("P")
R = TypeVar("R")

Backoff = Callable[[int], float | timedelta]


class TaskOptions(JobOptions, total=False):
    """What `@task(...)` takes: the options of the task's jobs, and how their attempts are run."""

    timeout: float | timedelta | None
    """How long an attempt may take, in seconds or as a timedelta. An async task is then cancelled
    and has failed with `TimeoutError`. A thread cannot be ended: a sync task finds
    `context.should_stop` true, and what it returns or raises counts. Default: no limit."""
    backoff: Backoff | None
    """Called with the number of the attempt that failed, from 1; returns the pause before the next,
    in seconds or as a timedelta. Default: exp(least(attempt, 10)) seconds, as all workers of this
    queue do it."""


class Task(Generic[P, R]):
    """A function that can run later, known by its identifier; made by `@task`.

    Calling it runs the function at once, here, as if it had never been decorated.
    """

    # Set by client.py, which stands above this file: a task knows how to ask, not how to send.
    send: ClassVar[Callable[[Task[Any, Any], object], EnqueuedJob]]

    def __init__(
        self,
        function: Callable[P, R],
        identifier: str,
        options: JobOptions | None = None,
        *,
        timeout: float | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        self.function = function
        self.identifier = identifier
        self.options: JobOptions = options or {}
        """The options that a job of this task has where the call says nothing."""
        self.timeout = timeout
        """How long an attempt may take, in seconds; `None`: as long as it wants."""
        self.backoff = backoff
        """The pause after a failed attempt; `None`: that of the queue."""
        self._signature = PayloadSignature(function, f"task {identifier!r}")
        self.takes_context = self._signature.takes_context
        """Whether its first parameter is `context`: its `TaskContext`, not part of the payload."""
        self.bind = self._signature.bind
        """Return the positional and the keyword arguments that a payload stands for.

        An object gives keyword arguments (without `_cron`, unless the function names it); an array,
        a scalar or null is one positional argument. Raises `InvalidJob` where that does not fit.
        """
        self.is_async = iscoroutinefunction(function)
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Task {self.identifier!r}: {name_of(self.function)}>"

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> EnqueuedJob:
        """Add a job with these arguments, which become the keys of a JSON object.

        Raises what `enqueue` raises; `InvalidJob` where the arguments do not fit the function.
        """
        return Task.send(self, self._signature.payload(args, kwargs))

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> EnqueuedJob:
        """Do what `enqueue` does, for async code; see `aenqueue`."""
        return await sync_to_async(self.enqueue)(*args, **kwargs)

    def using(self, **options: Unpack[JobOptions]) -> Task[P, R]:
        """Return this task with other options for the jobs it enqueues; the rest stays.

        Raises `InvalidJob` for an option out of bounds.
        """
        return Task(
            self.function,
            self.identifier,
            {**self.options, **validation.options(options)},
            timeout=self.timeout,
            backoff=self.backoff,
        )


class Registry:
    """The tasks of this process, by identifier."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task[Any, Any]] = {}

    def add(self, task: Task[Any, Any]) -> None:
        """Register a task. Raises `TaskAlreadyRegistered` if another function has its identifier.

        The same function may come again: its module may be imported under two names.
        """
        known = self._tasks.get(task.identifier)
        if known is not None and place_of(known.function) != place_of(task.function):
            raise TaskAlreadyRegistered(
                f"The task identifier {task.identifier!r} of {name_of(task.function)} is taken by "
                f'{name_of(known.function)}. Give one of them another: @task("...").'
            )
        self._tasks[task.identifier] = task

    def get(self, identifier: str) -> Task[Any, Any] | None:
        """Return the task, or `None` if it is not known here (a Node worker may serve it)."""
        return self._tasks.get(identifier)

    def identifiers(self) -> list[str]:
        """Return all identifiers, sorted."""
        return sorted(self._tasks)

    def __iter__(self) -> Iterator[Task[Any, Any]]:
        return iter([self._tasks[identifier] for identifier in self.identifiers()])


registry = Registry()


@overload
def task(function: Callable[P, R], /) -> Task[P, R]: ...


@overload
def task(
    identifier: str | None = None, /, **options: Unpack[TaskOptions]
) -> Callable[[Callable[P, R]], Task[P, R]]: ...


def task(function: Any = None, /, **options: Unpack[TaskOptions]) -> Any:
    """Register a function, sync or async, as a task.

    `@task` takes the function's name as the identifier, `@task("other_name", max_attempts=5)`
    another, of 1..128 characters, with options for all its jobs (see `TaskOptions`; `run_at` must
    be a timedelta here). Raises `InvalidTask`, `TaskAlreadyRegistered`, and `InvalidJob` for an
    option out of bounds.
    """
    if isinstance(function, str | None):
        return functools.partial(_register, identifier=function, options=options)
    return _register(function, identifier=None, options=options)


def autodiscover() -> None:
    """Import the module `tasks` of every installed app, so that its tasks are registered."""
    autodiscover_modules("tasks")


def _register(
    function: Callable[..., Any], *, identifier: str | None, options: Mapping[str, object]
) -> Task[..., Any]:
    if not inspect.isfunction(function):
        raise InvalidTask(f"@task is for functions, not for {function!r}.")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidTask(f"{name_of(function)} is a generator: calling it would run nothing.")
    if identifier is None and function.__name__ == "<lambda>":
        raise InvalidTask('A lambda has no name: task("...")(lambda: ...) gives it one.')
    if isinstance(options.get("run_at"), datetime):
        raise InvalidTask(
            f"{name_of(function)}: run_at of a task must be a timedelta, or all its jobs would be "
            "for the same moment."
        )
    job_options = dict(options)
    timeout, backoff = job_options.pop("timeout", None), job_options.pop("backoff", None)
    if backoff is not None and not callable(backoff):
        raise InvalidTask(f"{name_of(function)}: backoff must be a function, not {backoff!r}.")
    made = Task(
        function,
        validation.identifier(function.__name__ if identifier is None else identifier),
        validation.options(job_options),
        timeout=None if timeout is None else seconds("timeout", timeout, least=0.001),
        backoff=cast("Backoff | None", backoff),
    )
    registry.add(made)
    return made
