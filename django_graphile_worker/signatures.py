"""What a function's signature says to a queue: how it is called with a stored payload."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

from django_graphile_worker.exceptions import InvalidJob

# Graphile Worker adds this key to the payload of a job that its crontab has made.
CRON = "_cron"

# A function whose first parameter has this name is given the attempt's `TaskContext` there.
CONTEXT = "context"

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class PayloadSignature:
    """A task's signature without the context: payloads are bound to it, arguments made payloads.

    `of` is how the task is called in messages.
    """

    def __init__(self, function: Callable[..., Any], of: str) -> None:
        self._of = of
        self.takes_context, self.signature = _without_context(_signature(function))
        parameters = self.signature.parameters.values()
        self._names = {p.name for p in parameters if p.kind in _BY_NAME}
        self._required = {
            p.name
            for p in parameters
            if p.default is p.empty and p.kind in (*_BY_NAME, p.POSITIONAL_ONLY)
        }
        self._takes_any_name = any(p.kind is p.VAR_KEYWORD for p in parameters)
        # Found out once: binding takes as long as all the rest of what is done for a small job.
        self._why_not_one: str | None = None
        try:
            self.signature.bind(None)
        except TypeError as error:
            self._why_not_one = str(error)

    def bind(self, payload: object) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the positional and the keyword arguments; see `Task.bind`."""
        if not isinstance(payload, dict):
            if self._why_not_one is not None:
                raise InvalidJob(f"{self._of} with one positional argument: {self._why_not_one}")
            return (payload,), {}
        if payload.keys() == self._names:
            return (), payload
        if CRON in payload and CRON not in self._names:
            payload = {name: value for name, value in payload.items() if name != CRON}
        missing = self._required - payload.keys()
        unexpected: set[str] = set()
        if not self._takes_any_name:
            unexpected = payload.keys() - self._names
        elif self.takes_context:
            unexpected = payload.keys() & {CONTEXT}
        if missing or unexpected:
            faults = [_list("missing", missing), _list("unexpected", unexpected)]
            raise InvalidJob(f"{self._of}: {'; '.join(filter(None, faults))}")
        return (), payload

    def payload(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the object that holds these arguments; raises `InvalidJob` where none can."""
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise InvalidJob(f"{self._of}: {error}") from None
        payload: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            kind = self.signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_KEYWORD:
                payload.update(value)
            elif kind in _BY_NAME:
                payload[name] = value
            else:
                raise InvalidJob(
                    f"{self._of}: {name} has no name that a JSON object could hold; "
                    "use enqueue(task, payload)"
                )
        return payload


def place_of(function: Any) -> tuple[str, int, str]:
    """Where a function is written: equal for two imports of it, also under two module names."""
    code = getattr(inspect.unwrap(function), "__code__", None) or function.__code__
    return code.co_filename, code.co_firstlineno, code.co_qualname


def name_of(function: Callable[..., Any]) -> str:
    """Return a function's module and name, for messages."""
    return f"{function.__module__}.{function.__qualname__}"


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    if sys.version_info >= (3, 14):
        # Annotations may name what is imported for type checking only; they are not needed here.
        from annotationlib import Format

        return inspect.signature(function, annotation_format=Format.FORWARDREF)
    return inspect.signature(function)


def _without_context(signature: inspect.Signature) -> tuple[bool, inspect.Signature]:
    """Return whether the first parameter is the context, and the signature without it."""
    parameters = list(signature.parameters.values())
    if not parameters or parameters[0].name != CONTEXT or parameters[0].kind not in _POSITIONAL:
        return False, signature
    return True, signature.replace(parameters=parameters[1:])


def _list(fault: str, names: set[str]) -> str:
    listed = ", ".join(repr(name) for name in sorted(names))
    return f"{fault} argument{'s' if len(names) > 1 else ''} {listed}" if names else ""
