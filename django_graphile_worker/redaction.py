"""Payloads for people to read, without the secrets that may be in them.

Whatever cannot be looked through as a whole is not shown at all: a text that Python cannot decode,
or a long one, may have a secret anywhere.
"""

from __future__ import annotations

import json
import logging
from typing import Any

from django.utils.functional import Promise
from django.utils.module_loading import import_string
from django.utils.translation import gettext_lazy as _

from django_graphile_worker.conf import SECRETS, get_config

logger = logging.getLogger(__name__)

MASK = "••••••"

# How much of a payload is looked through, in characters.
LONGEST = 1_000_000
# Deeper than any payload that this package stores, and far from where Python's recursion ends.
DEEPEST = 250


class Withheld(Exception):
    """A payload that is not shown; `reason` is a sentence for people."""

    def __init__(self, reason: str | Promise) -> None:
        super().__init__()
        self.reason = reason


class Written(float):
    """A number that is shown as it was written: as a float it would become another, or infinite."""

    text: str

    def __new__(cls, text: str) -> Written:
        number = super().__new__(cls, text)
        number.text = text
        return number


def hides_nothing() -> bool:
    """Whether the settings say that payloads are shown as they are stored."""
    return get_config().redact == ()


def readable(text: str, task_identifier: str) -> str:
    """Return a payload's JSON text indented, with a mask in place of each secret.

    Raises `Withheld` where that cannot be done for the whole of it.
    """
    if len(text) > LONGEST:
        raise Withheld(_("It is too long to be searched for secrets, so nothing of it is shown."))
    try:
        value = json.loads(text, parse_float=Written, parse_int=_integer)
        return _write(redact(value, task_identifier))
    except (ValueError, TypeError, RecursionError):
        # As the exception's text may quote the payload, it is told to nobody.
        raise Withheld(
            _("It cannot be decoded, and so not searched for secrets: nothing of it is shown.")
        ) from None


def redact(value: Any, task_identifier: str = "") -> Any:
    """Return a decoded payload as the setting `REDACT` lets it be shown.

    Raises `Withheld` where the project's own function raises anything.
    """
    setting = get_config().redact
    if isinstance(setting, tuple):
        return mask(value, setting)
    try:
        function = import_string(setting) if isinstance(setting, str) else setting
        return function(mask(value, SECRETS), task_identifier)
    except Exception as error:  # noqa: BLE001 (whatever a project's function raises)
        # Not its text, which may quote the payload.
        logger.error("REDACT raised %s; the payload is not shown.", type(error).__qualname__)
        raise Withheld(
            _("The function of the setting REDACT failed, so nothing of it is shown.")
        ) from None


def mask(value: Any, words: tuple[str, ...], depth: int = 0) -> Any:
    """Return a copy in which the value of each key that holds one of the words is masked.

    Upper case and all but letters and digits count for nothing: `api_key` is in `X-Api-Key`.
    """
    if depth > DEEPEST:
        raise RecursionError
    if isinstance(value, dict):
        plain = [_plain(word) for word in words]
        return {
            key: MASK
            if any(word in _plain(key) for word in plain)
            else mask(inner, words, depth + 1)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [mask(inner, words, depth + 1) for inner in value]
    return value


def _plain(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def _integer(digits: str) -> int | Written:
    # Python refuses to read an integer of more than 4,300 digits.
    return int(digits) if len(digits) < 4_000 else Written(digits)


def _write(value: Any, indent: str = "\n", depth: int = 0) -> str:
    """Return JSON with a line for each value, and numbers as they were written."""
    if depth > DEEPEST:
        raise RecursionError
    inner = indent + "  "
    if isinstance(value, Written):
        return value.text
    if isinstance(value, dict) and value:
        items = [f"{_quote(str(k))}: {_write(v, inner, depth + 1)}" for k, v in value.items()]
        return "{" + ",".join(inner + item for item in items) + indent + "}"
    if isinstance(value, list | tuple) and value:
        items = [_write(one, inner, depth + 1) for one in value]
        return "[" + ",".join(inner + item for item in items) + indent + "]"
    if isinstance(value, str):
        return _quote(value)
    return json.dumps(value)


def _quote(text: str) -> str:
    quoted = json.dumps(text, ensure_ascii=False)
    # A lone surrogate, which no page can be sent with.
    return quoted.encode("utf-8", "backslashreplace").decode()
