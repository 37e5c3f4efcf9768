"""What the fixtures in ``conftest.py`` use to keep tests apart."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from asgiref.sync import SyncToAsync
from django.db import connections
from psycopg import sql

from tests.waiting import eventually

# Seconds that a session or thread which is about to end may take, or a lock to be let go.
PATIENCE = 2.0

# What the guards' own sessions are called.
NAME = "guard"

# In the order in which they can be emptied: jobs point at the others.
TABLES = (
    "_private_jobs",
    "_private_job_queues",
    "_private_tasks",
    "_private_known_crontabs",
    "django_key_conflicts",
    "django_workers",
    "django_renewed_locks",
    "django_job_errors",
    "django_statistics",
)


def database_use(item: pytest.Item) -> tuple[bool, bool]:
    """Whether a test uses the database, and whether it commits there."""
    names = set(getattr(item, "fixturenames", ()))
    marker = item.get_closest_marker("django_db")
    commits = bool(names & {"transactional_db", "live_server"}) or bool(
        marker and (marker.kwargs.get("transaction") or marker.args[:1] == (True,))
    )
    return commits or "db" in names or marker is not None, commits


def is_set_up() -> bool:
    """Whether Django points at the test database and not at the one it was made from."""
    return bool(connections["default"].settings_dict["NAME"].startswith("test_"))


def address() -> str:
    """The test database as a URL that psycopg and Node understand."""
    of = connections["default"].settings_dict
    if not is_set_up():
        raise RuntimeError(f"{of['NAME']!r} is not a test database: is the test using a database?")
    password = f":{quote(of['PASSWORD'], safe='')}" if of["PASSWORD"] else ""
    where = f"{of['HOST'] or 'localhost'}:{of['PORT'] or 5432}"
    return f"postgresql://{quote(of['USER'])}{password}@{where}/{quote(of['NAME'])}"


def observe() -> psycopg.Connection[Any]:
    """A session of its own; close it."""
    return psycopg.connect(address(), autocommit=True, application_name=NAME)


_watcher: psycopg.Connection[Any] | None = None


@contextlib.contextmanager
def watcher() -> Iterator[None]:
    """Keep one session open for ``watching()``: to log in is most of what a guard costs."""
    global _watcher
    with observe() as _watcher:
        yield
    _watcher = None


@contextlib.contextmanager
def watching() -> Iterator[psycopg.Connection[Any]]:
    if _watcher is not None and not _watcher.closed:
        yield _watcher
    else:  # nobody keeps one, or a test has ended it
        with observe() as observer:
            yield observer


def sessions() -> dict[int, str]:
    """The sessions on the test database, but for Django's own in this thread and the guards'."""
    own = connections["default"].connection
    with watching() as observer:
        rows = observer.execute(
            "select pid, format('%%s (%%s, %%s, last query: %%s)',"
            " pid, application_name, state, query)"
            " from pg_stat_activity"
            " where datname = current_database() and backend_type = 'client backend'"
            " and application_name <> %s and pid is distinct from %s",
            [NAME, own.info.backend_pid if own is not None and not own.closed else None],
        ).fetchall()
    return dict(rows)


def sessions_left(before: set[int]) -> list[str]:
    """Say which sessions a test left, and end them, so that only that test fails."""

    def none_left() -> None:
        left = {pid: text for pid, text in sessions().items() if pid not in before}
        assert not left, left

    try:
        eventually(none_left, PATIENCE)  # a closed session needs a moment to vanish
    except AssertionError:
        left = {pid: text for pid, text in sessions().items() if pid not in before}
        with watching() as observer:
            observer.execute(
                "select pg_terminate_backend(pid, 2000) from unnest(%s::int[]) pid", [list(left)]
            )
        return [f"session {text}" for text in left.values()]
    return []


def threads_left(before: set[threading.Thread]) -> list[str]:
    def new() -> list[threading.Thread]:
        # asgiref keeps one thread for as long as the process lives.
        kept: set[threading.Thread] = getattr(SyncToAsync.single_thread_executor, "_threads", set())
        return [t for t in threading.enumerate() if t not in before and t not in kept]

    def none_left() -> None:
        assert not new()

    try:
        eventually(none_left, PATIENCE)
    except AssertionError:
        return [f"thread {thread.name}" for thread in new()]
    return []


def fingerprint() -> object:
    """Changes when a row of Django's own tables was written since (``xmin`` tells updates)."""
    with watching() as observer:
        try:
            return observer.execute(_fingerprint()).fetchone()
        except psycopg.errors.UndefinedTable:
            return object()  # equal to no other


@functools.cache
def _fingerprint() -> sql.Composed:
    tables = connections["default"].introspection.django_table_names(include_views=False)
    each = sql.SQL("(select sum(hashtextextended(t::text, t.xmin::text::bigint)) from {} t)")
    return sql.SQL("select {}").format(
        sql.SQL(", ").join(each.format(sql.Identifier(table)) for table in sorted(tables))
    )


def empty_queue() -> None:
    """Delete every row of the queue; does not wait for long where a session holds a lock."""
    from django_graphile_worker.conf import get_config

    schema = get_config().schema
    with watching() as observer:
        observer.execute("select set_config('lock_timeout', %s, false)", [f"{PATIENCE}s"])
        for table in TABLES:
            name = sql.Identifier(schema, table)
            there = observer.execute("select to_regclass(%s)", [name.as_string(observer)])
            if there.fetchone() == (None,):
                continue  # a test of the migrations may have taken it away
            try:
                observer.execute(sql.SQL("delete from {}").format(name))
            except psycopg.errors.LockNotAvailable:
                others = "; ".join(sessions().values())
                pytest.fail(f"{table} is locked by one of: {others}", pytrace=False)
