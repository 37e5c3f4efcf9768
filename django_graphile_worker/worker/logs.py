"""How the worker's program writes its log: as text, or as JSON for `--log-format json`."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

# What every record has; the rest came as `extra`.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


# Characters of an exception: a long traceback, not the megabytes that some messages carry.
LONGEST_EXCEPTION = 20_000


class TextFormatter(logging.Formatter):
    """Cuts exceptions that are too long, in the middle: a message may be at either end."""

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's own name
        text = super().formatException(ei)
        left_out = len(text) - LONGEST_EXCEPTION
        if left_out <= 0:
            return text
        half = LONGEST_EXCEPTION // 2
        return f"{text[:half]}\n... {left_out} characters left out ...\n{text[-half:]}"


class JsonFormatter(TextFormatter):
    """Makes one line of ASCII of each record. Never raises: a log must not lose its bad news.

    The keys are `time` (ISO 8601, UTC, milliseconds), `level`, `logger`, `message`, what came as
    `extra`, and `exception` and `stack` where there are such. An extra that bears one of these
    names gets an underscore behind it; one that JSON has no form for is told by its `repr`.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": _message(record),
        }
        exception = self._exception(record)
        for name, value in vars(record).items():
            if name not in _STANDARD:
                line[f"{name}_" if name in (*line, "exception", "stack") else str(name)] = value
        if exception:
            line["exception"] = exception
        if record.stack_info:
            line["stack"] = str(record.stack_info)
        try:
            return json.dumps(line, default=_shown, skipkeys=True, allow_nan=False)
        except BaseException:  # noqa: BLE001 - NaN, a circle, or an odd subclass of dict
            return json.dumps({str(name): _shown(value) for name, value in line.items()})

    def _exception(self, record: logging.LogRecord) -> str | None:
        if not record.exc_info or record.exc_info[0] is None:
            return str(record.exc_text) if record.exc_text else None
        try:
            return self.formatException(record.exc_info)
        except BaseException:  # noqa: BLE001 - its source may be gone, its message may fail
            return f"{record.exc_info[0].__name__} (cannot be shown)"


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except BaseException:  # noqa: BLE001 - the arguments do not fit, or cannot be shown
        return f"{record.msg!r:.1000} (its arguments cannot be shown)"


def _shown(value: object) -> str:
    try:
        return value if type(value) is str else repr(value)
    except BaseException:  # noqa: BLE001 - somebody else's __repr__
        return f"<{type(value).__name__} that cannot be shown>"
