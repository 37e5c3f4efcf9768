"""Runs a coroutine within a context of its own, without making it a task of the loop."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from contextvars import Context
from typing import Any


async def drive(scope: Context, coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run `coroutine` to its end, each of its steps in `scope`; return what it returns.

    To the loop it is part of the present task: what it waits for and what is thrown into the task
    go through as they are.
    """
    try:
        waiting = scope.run(coroutine.send, None)
    except StopIteration as end:
        return end.value
    return await _Driven(scope, coroutine, waiting)


class _Driven:
    """The rest of a coroutine that waits for something."""

    __slots__ = ("_coroutine", "_scope", "_waiting")

    def __init__(self, scope: Context, coroutine: Coroutine[Any, Any, Any], waiting: Any) -> None:
        self._scope = scope
        self._coroutine = coroutine
        self._waiting = waiting

    def __await__(self) -> Generator[Any, Any, Any]:
        run, send, throw = self._scope.run, self._coroutine.send, self._coroutine.throw
        waiting, self._waiting = self._waiting, None
        while True:
            thrown: BaseException | None = None
            try:
                value = yield waiting
            except BaseException as error:  # noqa: BLE001 - the coroutine is to decide
                thrown = error
            try:
                waiting = run(send, value) if thrown is None else run(throw, thrown)
            except StopIteration as end:
                return end.value
            finally:
                # Its traceback leads back here.
                thrown = None
