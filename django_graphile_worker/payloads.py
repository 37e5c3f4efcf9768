"""JSON payloads: strict on the way in, forgiving of what other languages stored on the way out.

What is encoded must mean the same to Python, PostgreSQL and JavaScript, so nothing is converted
silently: a value that JSON lacks is refused with the path to it. Allowed are `dict` with `str`
keys, `list` and `tuple` (both become arrays), `str`, `int`, `float`, `bool` and `None`, with their
subclasses. Integers beyond 2**53 are kept exactly here and by PostgreSQL; JavaScript rounds them.
"""

from __future__ import annotations

import json
import math
from typing import Any

from django.utils.functional import Promise

from django_graphile_worker.exceptions import InvalidJob, InvalidJobType

# Deep enough for any real payload, and far from where json's own recursion ends (about 1,000 frames
# shared with the caller's stack on Python 3.11).
MAX_DEPTH = 200

# A float's exponent has 11 bits: JavaScript would read a longer integer as Infinity.
MAX_INTEGER_BITS = 1024

_encoder = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")
)

# `json.loads` would make one for each call, which takes twice as long as to decode a small payload.
_decoder = json.JSONDecoder(parse_float=lambda digits: _finite(digits))

_HINTS = {
    "datetime": "pass value.isoformat()",
    "date": "pass value.isoformat()",
    "time": "pass value.isoformat()",
    "timedelta": "pass value.total_seconds()",
    "UUID": "pass str(value)",
    "Decimal": "pass str(value)",
    "set": "pass a list",
    "frozenset": "pass a list",
    "bytes": "decode it, or encode it as base64",
    "bytearray": "decode it, or encode it as base64",
}


class _Culprit(Exception):
    """A value that is refused; gathers the way to it, innermost step first, on its way up."""

    def __init__(self, error: type[InvalidJob], reason: str, step: str = "") -> None:
        super().__init__(reason)
        self.error = error
        self.steps = [step] if step else []
        self.containers: list[int] = []

    def add(self, step: str, container: object) -> None:
        self.steps.append(step)
        self.containers.append(id(container))

    def describe(self, name: str) -> str:
        return f"{_path(name, self.steps[::-1])} {self}"


class _TooDeep(_Culprit):
    """The way down was too long; perhaps because it came back to where it had been."""

    def describe(self, name: str) -> str:
        seen: dict[int, int] = {}
        steps = self.steps[::-1]
        for depth, container in enumerate(self.containers[::-1]):
            if (first := seen.setdefault(container, depth)) != depth:
                target = _path(name, steps[:first])
                return f"{_path(name, steps[:depth])} refers back to {target}: a circular reference"
        return super().describe(name)


def encode(value: object, name: str = "payload") -> str:
    """Return `value` as JSON text.

    Raises `InvalidJob` (of the type `InvalidJobType` where the type is at fault), with the path
    to the value that is refused, for instance `payload.items[3].when`.
    """
    try:
        _check(value, 0)
        return _encoder.encode(value)
    except _Culprit as culprit:
        raise culprit.error(culprit.describe(name)) from None
    except RecursionError:
        raise InvalidJob(f"{name} is nested too deeply for the stack that is left") from None


def decode(text: str) -> Any:
    """Return the value of a stored payload.

    Of a key that stands twice the last value counts, as in JavaScript and jsonb; NUL escapes and
    lone surrogates come through. Raises `InvalidJob` for a number beyond a float's reach, an
    integer of thousands of digits, and too deep a nesting.
    """
    try:
        if text[:1] in "{[":
            value, end = _decoder.raw_decode(text)
            if end == len(text):
                return value
        return _decoder.decode(text)
    except RecursionError:
        raise InvalidJob("payload is nested too deeply to be read") from None
    except ValueError as error:
        raise InvalidJob(f"payload cannot be read: {error}") from None


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"{digits[:40]} is beyond the reach of a float")
    return number


def _check(value: object, depth: int) -> None:
    """Raise `_Culprit` at the first value that is refused; only then is a path made."""
    if isinstance(value, str):
        _check_text(value)
    elif value is None or isinstance(value, bool):
        pass
    elif isinstance(value, int):
        if value.bit_length() > MAX_INTEGER_BITS:
            raise _Culprit(InvalidJob, "is an integer that other languages read as Infinity")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise _Culprit(InvalidJob, f"is {value!r}, which JSON has not")
    elif isinstance(value, dict):
        _check_depth(depth)
        for key, item in value.items():
            _check_key(key)
            try:
                _check(item, depth + 1)
            except _Culprit as culprit:
                culprit.add(_step(key), value)
                raise
    elif isinstance(value, list | tuple):
        _check_depth(depth)
        for index, item in enumerate(value):
            try:
                _check(item, depth + 1)
            except _Culprit as culprit:
                culprit.add(f"[{index}]", value)
                raise
    else:
        raise _Culprit(InvalidJobType, _no_json(value))


def _check_text(value: str) -> None:
    if value.isascii():
        if "\0" in value:
            raise _Culprit(InvalidJob, "holds a NUL character, which PostgreSQL's text has not")
        return
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _Culprit(InvalidJob, "holds a lone surrogate, which UTF-8 has not") from None
    if "\0" in value:
        raise _Culprit(InvalidJob, "holds a NUL character, which PostgreSQL's text has not")


def _check_key(key: object) -> None:
    if not isinstance(key, str):
        reason = f"has the key {key!r} of type {type(key).__name__}; JSON's keys are strings"
        raise _Culprit(InvalidJobType, reason)
    try:
        _check_text(key)
    except _Culprit as culprit:
        raise _Culprit(culprit.error, f"is under a key that {culprit}", _step(key)) from None


def _check_depth(depth: int) -> None:
    if depth >= MAX_DEPTH:
        raise _TooDeep(InvalidJob, f"is nested deeper than {MAX_DEPTH} levels")


def _no_json(value: object) -> str:
    kind = type(value).__name__
    if isinstance(value, Promise):
        # Its language would be the caller's or the worker's, depending on who asks first.
        return "is a lazy string; pass str(value)"
    if hasattr(value, "_meta") and hasattr(value, "pk"):
        return f"is a model instance ({kind}); pass its primary key"
    hint = next((h for base in type(value).__mro__ if (h := _HINTS.get(base.__name__))), None)
    return f"is of type {kind}, which JSON has not" + (f"; {hint}" if hint else "")


def _step(key: str) -> str:
    if key.isidentifier():
        return f".{key}" if len(key) <= 60 else f".{key[:60]}…"
    return f"[{json.dumps(key[:60])}]" if len(key) <= 60 else f"[{json.dumps(key[:60])}…]"


def _path(name: str, steps: list[str]) -> str:
    return name + "".join(steps if len(steps) <= 12 else [*steps[:6], " … ", *steps[-5:]])
