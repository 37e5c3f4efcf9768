"""What a failed job says in `last_error`."""

from __future__ import annotations

import re
import traceback
from types import TracebackType

# A sentence for lists, a traceback for the reader; not the megabytes that some errors carry.
LONGEST_MESSAGE = 4_000
LONGEST_ERROR = 12_000

# Of an error group: how many of its errors are told, and how long each may be.
MOST_MEMBERS = 10
LONGEST_MEMBER = 300

# PostgreSQL's text holds neither.
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def describe(error: BaseException) -> str:
    """Return the error as text: its type and message first, then where it was raised.

    Always storable: NUL and lone surrogates are replaced, both parts are cut. Never raises, also
    where the error's own `__str__` does.
    """
    head = _head(error, LONGEST_MESSAGE)
    if isinstance(error, BaseExceptionGroup):
        head = "\n".join([head, *_members(error)])
    try:
        frames = "".join(traceback.format_tb(_outside(error.__traceback__), limit=-30))
    except BaseException:  # noqa: BLE001 - as above: source files may be gone or unreadable
        frames = ""
    return storable(f"{_cut(head, LONGEST_MESSAGE)}\n\n{frames}".rstrip())


def _head(error: BaseException, longest: int) -> str:
    try:
        name = str(type(error).__qualname__)
        # Of a subclass of str, whose own methods may fail later, the characters only.
        message = "".join(str(error))[: longest + 1]
    except BaseException:  # noqa: BLE001 - somebody else's code, run to report another fault
        return f"{type.__getattribute__(type(error), '__name__')}: (its message cannot be shown)"
    return _cut(f"{name}: {message}" if message else name, longest)


def _members(group: BaseExceptionGroup[BaseException]) -> list[str]:
    """Return a line for each of the first errors in a group, those of inner groups included."""
    lines: list[str] = []
    waiting: list[BaseException] = list(group.exceptions)
    while waiting and len(lines) < MOST_MEMBERS:
        error = waiting.pop(0)
        if isinstance(error, BaseExceptionGroup):
            waiting[:0] = error.exceptions
        else:
            lines.append(f"- {_head(error, LONGEST_MEMBER)}")
    return [*lines, "- and more"] if waiting else lines


def storable(text: str) -> str:
    """Return `text` as PostgreSQL can store it, cut to `LONGEST_ERROR` characters."""
    return _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", _cut(text, LONGEST_ERROR))


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "\N{HORIZONTAL ELLIPSIS}"


def _outside(raised: TracebackType | None) -> TracebackType | None:
    """Leave out the frames in which we call the task."""
    while raised is not None and _is_ours(raised.tb_frame.f_globals.get("__name__")):
        raised = raised.tb_next
    return raised


def _is_ours(module: object) -> bool:
    return isinstance(module, str) and module.startswith("django_graphile_worker.")
