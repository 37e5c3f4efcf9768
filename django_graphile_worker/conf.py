"""The one reader of `settings.GRAPHILE_WORKER`.

Everything else asks `get_config()`, at the time it needs a value: settings may change under tests.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from functools import cache
from typing import Any, Final

from django.conf import settings
from django.core.signals import setting_changed

from django_graphile_worker import bounds
from django_graphile_worker.exceptions import InvalidSetting

SETTING = "GRAPHILE_WORKER"

DAY = 86_400
HOUR = 3_600

ForbiddenFlags = Callable[[], Sequence[str]]
Redact = Callable[[Any, str], Any]

SECRETS = (
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "api_key",
    "access_key",
    "private_key",
    "authorization",
    "credential",
    "cookie",
)


class Same(Enum):
    """Stands for "the alias that the worker works on", which `None` cannot: that is "none"."""

    SAME = "same"


SAME: Final = Same.SAME


def _listen_database(value: object) -> str | Same | None:
    if value is None or value is SAME or (isinstance(value, str) and value):
        return value
    raise ValueError("a database alias, or None to poll only")


def _forbidden_flags(value: object) -> tuple[str, ...] | str | ForbiddenFlags:
    if callable(value) or bounds.is_dotted_path(value):
        return value  # type: ignore[return-value]
    if bounds.are_flags(value):
        return tuple(value)
    raise ValueError("a list of flags, or a function that returns one, or its dotted path")


def _job_wrapper(value: object) -> str | Callable[..., Any] | None:
    if value is None or callable(value) or bounds.is_dotted_path(value):
        return value  # type: ignore[return-value]
    raise ValueError("the dotted path of a function that returns a context manager, or None")


def _redact(value: object) -> tuple[str, ...] | str | Redact:
    if callable(value) or bounds.is_dotted_path(value):
        return value  # type: ignore[return-value]
    # A pattern without a letter or a digit would be found in every key.
    if isinstance(value, list | tuple) and all(
        isinstance(pattern, str) and any(map(str.isalnum, pattern)) for pattern in value
    ):
        return tuple(value)
    raise ValueError(
        "a list of parts of keys, or a function that changes what is shown, or its dotted path"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings, checked. Each field is a key of `GRAPHILE_WORKER` in lower case.

    `dataclasses.replace(config, concurrency=4)` checks as well, so a command may put its flags
    over the settings. Raises `InvalidSetting`.
    """

    databases: tuple[str, ...] = ("default",)
    """`DATABASES`: the aliases that hold a queue; the first is the one that `enqueue` uses."""
    schema: str = "graphile_worker"
    """`SCHEMA`: the schema that holds the queue, unquoted; models and migrations follow it."""
    concurrency: int = 10
    """`CONCURRENCY`: how many jobs one worker process runs at a time, 1..1000."""
    poll_interval: float = 2.0
    """`POLL_INTERVAL`: seconds between two looks for due jobs, 0.01 up to a day."""
    processes: int = 1
    """`PROCESSES`: how many worker processes one command runs, 1..256."""
    prefetch: int | None = None
    """`PREFETCH`: jobs taken ahead of free slots at most, 0..10,000; `None`: the worker's own."""
    listen_database: str | Same | None = SAME
    """`LISTEN_DATABASE`: the alias to LISTEN on, where that of the queue leads through a pooler.

    By default the alias of the queue; `None`: do not listen, poll only. See `listen_alias`."""
    heartbeat: float = 5.0
    """`HEARTBEAT`: seconds between two signs of life of a worker, 0.1 up to 600."""
    stale_after: float = 30.0
    """`STALE_AFTER`: seconds without one after which it counts as dead: two beats up to an hour."""
    forbidden_flags: tuple[str, ...] | str | ForbiddenFlags = ()
    """`FORBIDDEN_FLAGS`: jobs with one of these flags are left alone.

    A list; or a function (or the dotted path of one) that returns it, asked before each fetch."""
    job_wrapper: str | Callable[..., Any] | None = None
    """`JOB_WRAPPER`: the dotted path of `wrapper(context)`; what it returns is entered around each
    job, as a context manager."""
    log_format: str = "text"
    """`LOG_FORMAT`: `text`, or `json` for one object per line."""
    shutdown_timeout: float = 30.0
    """`SHUTDOWN_TIMEOUT`: seconds that a stopping worker grants running jobs, 0 up to a day."""
    max_attempts: int = 25
    """`MAX_ATTEMPTS`: how often a job may be begun where neither call nor task says, 1..32767."""

    redact: tuple[str, ...] | str | Redact = SECRETS
    """`REDACT`: what the admin hides of payloads: the values of keys that hold one of these words.

    A list of words, upper case and punctuation aside; empty: nothing is hidden. Or a function (or
    the dotted path of one), called as `redact(payload, task_identifier)` after the default words
    have been applied: it returns what is shown."""
    keep_statistics: float = 31.0 * DAY
    """`KEEP_STATISTICS`: seconds that statistics are kept, an hour up to ten years."""

    def __post_init__(self) -> None:
        for name, check in _CHECKS.items():
            value = getattr(self, name)
            try:
                object.__setattr__(self, name, check(value))
            except ValueError as error:
                raise InvalidSetting(
                    f"{SETTING}: {name.upper()} must be {error}, not {value!r}."
                ) from None
        if self.stale_after < 2 * self.heartbeat:
            # One beat that comes late must not kill.
            raise InvalidSetting(
                f"{SETTING}: STALE_AFTER must be at least twice HEARTBEAT "
                f"({self.heartbeat:g} s), not {self.stale_after!r}."
            )

    @property
    def listen_alias(self) -> str | None:
        """The alias to LISTEN on for the queue in the first of `databases`; `None`: poll only."""
        return self.databases[0] if self.listen_database is SAME else self.listen_database


_CHECKS: dict[str, Callable[[object], object]] = {
    "databases": bounds.aliases,
    "schema": bounds.schema,
    "concurrency": bounds.integer(1, 1000),
    "processes": bounds.integer(1, 256),
    "prefetch": bounds.or_none(bounds.integer(0, 10_000)),
    "listen_database": _listen_database,
    "heartbeat": bounds.seconds(0.1, 600),
    "stale_after": bounds.seconds(0.2, HOUR),
    "forbidden_flags": _forbidden_flags,
    "job_wrapper": _job_wrapper,
    "log_format": bounds.one_of("text", "json"),
    "poll_interval": bounds.seconds(0.01, DAY),
    "shutdown_timeout": bounds.seconds(0, DAY),
    "max_attempts": bounds.integer(1, 32_767),
    "redact": _redact,
    "keep_statistics": bounds.seconds(HOUR, 3_660 * DAY),
}


@cache
def get_config() -> Config:
    """Return the settings; read once, and again after Django's `setting_changed`.

    Raises `InvalidSetting` for an unknown name or a value out of bounds.
    """
    given = getattr(settings, SETTING, {})
    if not isinstance(given, Mapping):
        raise InvalidSetting(f"{SETTING} must be a dict, not {type(given).__name__}.")
    known = {field.name.upper(): field.name for field in fields(Config)}
    for name in given:
        if name not in known:
            raise InvalidSetting(f"{SETTING} has no setting {name!r}.{_hint(name, known)}")
    values: dict[str, Any] = {known[name]: value for name, value in given.items()}
    return Config(**values)


def _hint(name: object, known: Mapping[str, str]) -> str:
    near = difflib.get_close_matches(str(name).upper(), known, n=1)
    return f" Did you mean {near[0]!r}?" if near else f" It knows {', '.join(sorted(known))}."


def _forget(*, setting: str, **kwargs: object) -> None:
    if setting == SETTING:
        get_config.cache_clear()


setting_changed.connect(_forget, dispatch_uid="django_graphile_worker.conf")
