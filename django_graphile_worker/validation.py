"""The options of a job, checked and brought into one form before any SQL is sent.

A refusal names the argument and leaves the caller's transaction as it was. The bounds are those of
the columns that Node and Rust workers share.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import cast

from django.conf import settings
from django.utils import timezone

from django_graphile_worker.exceptions import InvalidJob, InvalidJobType
from django_graphile_worker.jobs import JobKeyMode, JobOptions

LONGEST_IDENTIFIER = 128
LONGEST_QUEUE_NAME = 128
LONGEST_KEY = 512
SMALLINT = (-32_768, 32_767)
BIGINT = (-(2**63), 2**63 - 1)

# What a timedelta may come to, seen from this machine's clock: it is the database's that counts,
# and the two may differ.
EARLIEST = datetime.min.replace(tzinfo=UTC) + timedelta(days=366)
LATEST = datetime.max.replace(tzinfo=UTC) - timedelta(days=366)


def text(name: str, value: object, longest: int | None = None, *, empty: bool = False) -> str:
    """Return `value` as a plain `str` that PostgreSQL can store."""
    if not isinstance(value, str):
        raise InvalidJobType(f"{name} must be a string, not {_kind(value)}")
    if not value and not empty:
        raise InvalidJob(f"{name} must not be empty")
    if longest is not None and len(value) > longest:
        raise InvalidJob(f"{name} has {len(value)} characters; {longest} is the most")
    if "\0" in value:
        raise InvalidJob(f"{name} holds a NUL character, which PostgreSQL's text has not")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidJob(f"{name} holds a lone surrogate, which UTF-8 has not") from None
    # A subclass (TextChoices, SafeString) could be sent as something else than its characters.
    return str.__str__(value)


def integer(name: str, value: object, low: int, high: int) -> int:
    """Return `value` as a plain `int` within bounds; `bool` is not one."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidJobType(f"{name} must be an integer, not {_kind(value)}")
    if not low <= value <= high:
        raise InvalidJob(f"{name} must be from {low} to {high}, not {_digits(value)}")
    return int(value)


def identifier(value: object, name: str = "task") -> str:
    return text(name, value, LONGEST_IDENTIFIER)


def job_key(value: object) -> str:
    return text("job_key", value, LONGEST_KEY)


def queue_name(value: object) -> str:
    return text("queue_name", value, LONGEST_QUEUE_NAME)


def priority(value: object) -> int:
    return integer("priority", value, *SMALLINT)


def max_attempts(value: object) -> int:
    return integer("max_attempts", value, 1, SMALLINT[1])


def attempts(value: object) -> int:
    return integer("attempts", value, 0, SMALLINT[1])


def using(value: object) -> str:
    return text("using", value)


def job_key_mode(value: object) -> JobKeyMode:
    try:
        return JobKeyMode(cast(str, value))
    except ValueError:
        modes = ", ".join(repr(str(mode)) for mode in JobKeyMode)
        error = InvalidJob if isinstance(value, str) else InvalidJobType
        raise error(f"job_key_mode must be one of {modes}, not {value!r}") from None


def flags(value: object) -> tuple[str, ...] | None:
    """Return the flags without repeats; `None` where there is none."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Collection):
        raise InvalidJobType(f"flags must be a list of strings, not {_kind(value)}")
    found = [text(f"flags[{index}]", flag) for index, flag in enumerate(value)]
    return tuple(dict.fromkeys(found)) or None


def run_at(value: object) -> datetime | timedelta:
    """Return an aware datetime in UTC, or the timedelta as it is."""
    if isinstance(value, timedelta):
        try:
            if EARLIEST <= datetime.now(UTC) + value <= LATEST:
                return value
        except OverflowError:
            pass
        raise InvalidJob(f"run_at: {value} from now is beyond the years 2 to 9998")
    if not isinstance(value, datetime):
        raise InvalidJobType(f"run_at must be a datetime or a timedelta, not {_kind(value)}")
    if timezone.is_naive(value):
        if settings.USE_TZ:
            raise InvalidJob(
                f"run_at: {value} has no time zone, which USE_TZ asks for; "
                "django.utils.timezone.make_aware gives it one"
            )
        value = timezone.make_aware(value, timezone.get_default_timezone())
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise InvalidJob(f"run_at: {value} is beyond the years 1 to 9999 in UTC") from None


_CHECKS: dict[str, Callable[[object], object]] = {
    "queue_name": queue_name,
    "run_at": run_at,
    "max_attempts": max_attempts,
    "job_key": job_key,
    "job_key_mode": job_key_mode,
    "priority": priority,
    "flags": flags,
    "using": using,
}


def options(given: Mapping[str, object]) -> JobOptions:
    """Return the options checked, in one form; `None` stays `None`.

    Raises `InvalidJob`, or `InvalidJobType` for an unknown option or a wrong type.
    """
    checked = {}
    for name, value in given.items():
        if name not in _CHECKS:
            near = difflib.get_close_matches(str(name), _CHECKS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(_CHECKS)}"
            raise InvalidJobType(f"unknown option {name!r}; {hint}")
        checked[name] = None if value is None else _CHECKS[name](value)
    return cast(JobOptions, checked)


def job_ids(value: Iterable[object]) -> list[int]:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise InvalidJobType(f"job_ids must be a list of integers, not {_kind(value)}")
    return [integer(f"job_ids[{index}]", item, *BIGINT) for index, item in enumerate(value)]


def worker_ids(value: Iterable[object]) -> list[str]:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise InvalidJobType(f"worker_ids must be a list of strings, not {_kind(value)}")
    return [text(f"worker_ids[{index}]", item) for index, item in enumerate(value)]


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__


def _digits(value: int) -> str:
    # Python refuses to print an integer of more than 4,300 digits.
    return str(value) if value.bit_length() < 200 else "a longer one"
