"""The flags of `manage.py graphile_worker`, and what they make of the settings."""

from __future__ import annotations

import dataclasses
import difflib
from argparse import ArgumentParser, BooleanOptionalAction
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from django.core.management.base import CommandError
from django.db import connections
from django.utils.module_loading import import_string

from django_graphile_worker.bounds import are_flags
from django_graphile_worker.conf import SETTING, Config, get_config
from django_graphile_worker.exceptions import InvalidSetting

# The flags that stand for a setting of the same name and take one value.
OF_SETTINGS = (
    "concurrency",
    "processes",
    "poll_interval",
    "shutdown_timeout",
    "prefetch",
    "heartbeat",
    "stale_after",
    "log_format",
)

Flags = Sequence[str] | Callable[[], Sequence[str]]


def add(parser: ArgumentParser) -> None:
    """Add the flags. Their defaults are `None` where a setting decides."""
    flag = parser.add_argument
    flag(
        "--database",
        metavar="ALIAS",
        help="the database with the queue (the first of the setting DATABASES)",
    )
    flag(
        "--concurrency",
        type=int,
        metavar="N",
        help="how many jobs a process runs at a time (setting CONCURRENCY, default 10)",
    )
    flag(
        "--processes",
        type=int,
        metavar="N",
        help="how many processes to run; one that dies is started again "
        "(setting PROCESSES, default 1)",
    )
    _names(flag, "--tasks", "serve only these tasks")
    _names(flag, "--exclude-tasks", "serve all tasks but these")
    _names(
        flag,
        "--forbidden-flags",
        "leave jobs alone that have one of these flags (setting FORBIDDEN_FLAGS)",
    )
    flag(
        "--once",
        action="store_true",
        help="run the jobs that are due, and those that become due meanwhile, and exit",
    )
    flag(
        "--max-jobs",
        type=int,
        metavar="N",
        help="stop after N jobs; with --processes each process does, and a new one takes its place",
    )
    flag(
        "--poll-interval",
        type=float,
        metavar="SECONDS",
        help="pause between two looks for due jobs; new ones are also announced "
        "(setting POLL_INTERVAL, default 2)",
    )
    flag(
        "--no-listen",
        action="store_true",
        help="find new jobs by looking only: for a connection through a transaction pooler",
    )
    flag(
        "--listen-database",
        metavar="ALIAS",
        help="where to listen: this alias, which leads to the same database past a pooler "
        "(setting LISTEN_DATABASE)",
    )
    flag(
        "--prefetch",
        type=int,
        metavar="N",
        help="how many jobs to take ahead of free slots at most (setting PREFETCH)",
    )
    flag(
        "--shutdown-timeout",
        type=float,
        metavar="SECONDS",
        help="how long running jobs may take when the worker stops "
        "(setting SHUTDOWN_TIMEOUT, default 30)",
    )
    flag(
        "--heartbeat",
        type=float,
        metavar="SECONDS",
        help="pause between two signs of life (setting HEARTBEAT, default 5)",
    )
    flag(
        "--stale-after",
        type=float,
        metavar="SECONDS",
        help="silence after which others take this worker for dead (setting STALE_AFTER, "
        "default 30)",
    )
    flag(
        "--log-format",
        metavar="text|json",
        help="json: one object per line (setting LOG_FORMAT, default text)",
    )
    flag(
        "--reload",
        action=BooleanOptionalAction,
        help="start again when a file of the project changes (the default under DEBUG, but with "
        "--once and --max-jobs)",
    )


def _names(flag: Callable[..., Any], name: str, text: str) -> None:
    flag(name, nargs="+", action="extend", metavar="NAME", help=f"{text}; commas may part them")


def config(options: Mapping[str, Any]) -> Config:
    """Return the settings with the flags put over them. Raises `CommandError` naming the flag."""
    try:
        settings = get_config()
    except InvalidSetting as error:
        raise CommandError(str(error)) from error
    changes = {name: options[name] for name in OF_SETTINGS if options[name] is not None}
    for name in ("database", "listen_database"):
        alias = options[name]
        if alias is not None and alias not in connections:
            flag = _flag(name)
            raise CommandError(f"{flag} must be one of {', '.join(connections)}, not {alias!r}.")
    if (alias := options["database"]) is not None and alias != settings.databases[0]:
        changes["databases"] = (alias,)
        if settings.listen_database is not None:
            # That of the setting leads to the first database.
            changes["listen_database"] = alias
    if options["listen_database"] is not None:
        changes["listen_database"] = options["listen_database"]
    if options["no_listen"]:
        changes["listen_database"] = None
    if (flags := names(options["forbidden_flags"])) is not None:
        changes["forbidden_flags"] = flags
    try:
        made = dataclasses.replace(settings, **changes)
    except InvalidSetting as error:
        message = str(error).removeprefix(f"{SETTING}: ")
        name, _, reason = message.partition(" must be ")
        if name.lower() in changes:
            message = f"{_flag(name)} must be {reason}"
        raise CommandError(message) from error
    if made.listen_alias is not None and made.listen_alias not in connections:
        raise CommandError(
            f"{SETTING}: LISTEN_DATABASE must be one of {', '.join(connections)}, "
            f"not {made.listen_alias!r}."
        )
    if (most := options["max_jobs"]) is not None and not (isinstance(most, int) and most > 0):
        raise CommandError(f"--max-jobs must be an integer from 1 on, not {most!r}.")
    return made


def chooses(options: Mapping[str, Any]) -> bool:
    """Whether the flags choose tasks; without them all are served."""
    return options["tasks"] is not None or options["exclude_tasks"] is not None


def identifiers(options: Mapping[str, Any], known: Sequence[str]) -> list[str]:
    """Return the tasks to serve, of those that are known here. Raises `CommandError`.

    A name that is not known is refused: misspelt, its jobs would wait for ever, or run where they
    must not.
    """
    chosen = set(known)
    if (only := names(options["tasks"], known)) is not None:
        chosen = _check("--tasks", only, known)
    if (excluded := names(options["exclude_tasks"], known)) is not None:
        chosen -= _check("--exclude-tasks", excluded, known)
    if known and not chosen:
        raise CommandError("--tasks and --exclude-tasks leave no task to serve.")
    return sorted(chosen)


def names(given: str | Iterable[str] | None, known: Iterable[str] = ()) -> tuple[str, ...] | None:
    """Return the names of a flag given once or more often, in words or parted by commas."""
    if given is None:
        return None
    parts: list[str] = []
    for word in [given] if isinstance(given, str) else given:
        # A name may itself hold a comma.
        parts += [word] if word in known else (part.strip() for part in word.split(","))
    return tuple(dict.fromkeys(part for part in parts if part))


def resolve_flags(given: Flags) -> Flags:
    """Return `FORBIDDEN_FLAGS` as a list or a function. Raises `CommandError`.

    The function raises `InvalidSetting` where that of the setting returns no list of flags.
    """
    function = _imported("FORBIDDEN_FLAGS", given) if isinstance(given, str) else given
    if not callable(function):
        return function

    def checked() -> Sequence[str]:
        returned = function()
        # A string is made of strings, too; and what can be read once only is empty after a look.
        several = isinstance(returned, Iterable) and not isinstance(returned, str)
        flags = list(returned) if several else returned
        if not are_flags(flags):
            raise InvalidSetting(
                f"{SETTING}: FORBIDDEN_FLAGS must return a list of flags, not {flags!r}."
            )
        return flags

    return checked


def resolve_wrapper(given: str | Callable[..., Any] | None) -> Callable[..., Any] | None:
    """Return `JOB_WRAPPER` as a function. Raises `CommandError`."""
    return _imported("JOB_WRAPPER", given) if isinstance(given, str) else given


def _imported(name: str, path: str) -> Callable[..., Any]:
    try:
        found = import_string(path)
    except ImportError as error:
        raise CommandError(f"{SETTING}: {name} {path!r} cannot be imported: {error}") from error
    if not callable(found):
        raise CommandError(f"{SETTING}: {name} {path!r} is not a function.")
    return found  # type: ignore[no-any-return]


def _check(flag: str, given: Sequence[str], known: Sequence[str]) -> set[str]:
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise CommandError(f"{flag}: no task {name!r} is known here.{hint}")
    return set(given)


def _flag(name: str) -> str:
    return "--" + name.lower().replace("_", "-")
