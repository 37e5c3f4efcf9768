"""Task identifiers and the functions behind them; the `@task` decorator.

Only what was registered here can ever run: a stored identifier is looked up, never imported.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, ClassVar, Generic, ParamSpec, TypeVar, Unpack, overload

from asgiref.sync import sync_to_async
from django.utils.module_loading import autodiscover_modules

from django_graphile_worker import validation
from django_graphile_worker.exceptions import InvalidJob, InvalidTask, TaskAlreadyRegistered
from django_graphile_worker.jobs import EnqueuedJob, JobOptions

P = ParamSpec("P")
R = TypeVar("R")

# Graphile Worker adds this key to the payload of a job that its crontab has made.
CRON = "_cron"

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Task(Generic[P, R]):
    """A function that can run later, known by its identifier; made by `@task`.

    Calling it runs the function at once, here, as if it had never been decorated.
    """

    # Set by client.py, which stands above this file: a task knows how to ask, not how to send.
    send: ClassVar[Callable[[Task[Any, Any], object], EnqueuedJob]]

    def __init__(
        self, function: Callable[P, R], identifier: str, options: JobOptions | None = None
    ) -> None:
        self.function = function
        self.identifier = identifier
        self.options: JobOptions = options or {}
        """The options that a job of this task has where the call says nothing."""
        self.signature = _signature(function)
        self.is_async = inspect.iscoroutinefunction(function)
        functools.update_wrapper(self, function)

        parameters = self.signature.parameters.values()
        self._names = {p.name for p in parameters if p.kind in _BY_NAME}
        self._required = {
            p.name
            for p in parameters
            if p.default is p.empty and p.kind in (*_BY_NAME, p.POSITIONAL_ONLY)
        }
        self._takes_any_name = any(p.kind is p.VAR_KEYWORD for p in parameters)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Task {self.identifier!r}: {_name(self.function)}>"

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> EnqueuedJob:
        """Add a job with these arguments, which become the keys of a JSON object.

        Raises what `enqueue` raises; `InvalidJob` where the arguments do not fit the function.
        """
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise InvalidJob(f"task {self.identifier!r}: {error}") from None
        payload: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            kind = self.signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_KEYWORD:
                payload.update(value)
            elif kind in _BY_NAME:
                payload[name] = value
            else:
                raise InvalidJob(
                    f"task {self.identifier!r}: {name} has no name that a JSON object could hold; "
                    "use enqueue(task, payload)"
                )
        return Task.send(self, payload)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> EnqueuedJob:
        """Do what `enqueue` does, for async code; see `aenqueue`."""
        return await sync_to_async(self.enqueue)(*args, **kwargs)

    def using(self, **options: Unpack[JobOptions]) -> Task[P, R]:
        """Return this task with other options for the jobs it enqueues; the rest stays.

        Raises `InvalidJob` for an option out of bounds.
        """
        return Task(self.function, self.identifier, {**self.options, **validation.options(options)})

    def bind(self, payload: object) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the positional and the keyword arguments that a payload stands for.

        An object gives keyword arguments (without `_cron`, unless the function names it); an array,
        a scalar or null is one positional argument. Raises `InvalidJob` where that does not fit.
        """
        if not isinstance(payload, dict):
            try:
                self.signature.bind(payload)
            except TypeError as error:
                raise InvalidJob(
                    f"task {self.identifier!r} with one positional argument: {error}"
                ) from None
            return (payload,), {}

        if CRON in payload and CRON not in self._names:
            payload = {name: value for name, value in payload.items() if name != CRON}
        missing = self._required - payload.keys()
        unexpected = set() if self._takes_any_name else payload.keys() - self._names
        if missing or unexpected:
            faults = [_list("missing", missing), _list("unexpected", unexpected)]
            raise InvalidJob(f"task {self.identifier!r}: {'; '.join(filter(None, faults))}")
        return (), payload


class Registry:
    """The tasks of this process, by identifier."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task[Any, Any]] = {}

    def add(self, task: Task[Any, Any]) -> None:
        """Register a task. Raises `TaskAlreadyRegistered` if another function has its identifier.

        The same function may come again: its module may be imported under two names.
        """
        known = self._tasks.get(task.identifier)
        if known is not None and _place(known.function) != _place(task.function):
            raise TaskAlreadyRegistered(
                f"The task identifier {task.identifier!r} of {_name(task.function)} is taken by "
                f'{_name(known.function)}. Give one of them another: @task("...").'
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
    identifier: str | None = None, /, **options: Unpack[JobOptions]
) -> Callable[[Callable[P, R]], Task[P, R]]: ...


def task(function: Any = None, /, **options: Unpack[JobOptions]) -> Any:
    """Register a function, sync or async, as a task.

    `@task` takes the function's name as the identifier, `@task("other_name", max_attempts=5)`
    another, of 1..128 characters, with options for all its jobs (see `JobOptions`; `run_at` must be
    a timedelta here). Raises `InvalidTask`, `TaskAlreadyRegistered`, and `InvalidJob` for an option
    out of bounds.
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
        raise InvalidTask(f"{_name(function)} is a generator: calling it would run nothing.")
    if identifier is None and function.__name__ == "<lambda>":
        raise InvalidTask('A lambda has no name: task("...")(lambda: ...) gives it one.')
    if isinstance(options.get("run_at"), datetime):
        raise InvalidTask(
            f"{_name(function)}: run_at of a task must be a timedelta, or all its jobs would be "
            "for the same moment."
        )
    made = Task(
        function,
        validation.identifier(function.__name__ if identifier is None else identifier),
        validation.options(options),
    )
    registry.add(made)
    return made


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    if sys.version_info >= (3, 14):
        # Annotations may name what is imported for type checking only; they are not needed here.
        from annotationlib import Format

        return inspect.signature(function, annotation_format=Format.FORWARDREF)
    return inspect.signature(function)


def _place(function: Any) -> tuple[str, int, str]:
    """Where a function is written: equal for two imports of it, also under two module names."""
    code = getattr(inspect.unwrap(function), "__code__", None) or function.__code__
    return code.co_filename, code.co_firstlineno, code.co_qualname


def _name(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def _list(fault: str, names: set[str]) -> str:
    listed = ", ".join(repr(name) for name in sorted(names))
    return f"{fault} argument{'s' if len(names) > 1 else ''} {listed}" if names else ""
