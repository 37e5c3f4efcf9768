"""Fixtures on a real PostgreSQL, and the guards that keep one test from disturbing the next."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from typing import Any

import psycopg
import pytest
from django.test import TransactionTestCase
from psycopg import sql

from tests import guards

Connect = Callable[..., psycopg.Connection[Any]]


@pytest.fixture(scope="session", autouse=True)
def _flush_only_what_was_written() -> Iterator[None]:
    """Spare the flush after a test that wrote to none of Django's own tables.

    Most tests write to the queue only, and the flush, which makes all content types and
    permissions anew, took ten times as long as such a test.
    """
    flush = TransactionTestCase._fixture_teardown  # type: ignore[attr-defined]
    clean: object = None

    def flush_if_written(case: TransactionTestCase) -> None:
        nonlocal clean
        if case.databases != {"default"} or clean is None or guards.fingerprint() != clean:
            flush(case)
            clean = guards.fingerprint()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", flush_if_written)
        yield


@pytest.fixture(scope="session")
def schema() -> str:
    """The name of the queue's schema, unquoted."""
    from django_graphile_worker.conf import get_config

    return get_config().schema


@pytest.fixture
def dsn(transactional_db: None) -> str:
    """The address of the test database, for programs of their own (Node, a worker process)."""
    return guards.address()


@pytest.fixture
def connect(transactional_db: None) -> Iterator[Connect]:
    """Open raw sessions on the test database; they are closed when the test ends.

    ``connect(autocommit=True, isolation_level=None, role=None, **parameters)``: ``role`` is put on
    with SET ROLE, ``parameters`` are libpq's. Sessions see only what is committed, so this asks
    for ``transactional_db``.
    """
    opened: list[psycopg.Connection[Any]] = []

    def connect(
        *,
        autocommit: bool = True,
        isolation_level: psycopg.IsolationLevel | None = None,
        role: str | None = None,
        **parameters: Any,
    ) -> psycopg.Connection[Any]:
        parameters.setdefault("application_name", f"connect {len(opened) + 1}")
        connection = psycopg.connect(guards.address(), autocommit=True, **parameters)
        opened.append(connection)
        if role is not None:
            connection.execute(sql.SQL("set role {}").format(sql.Identifier(role)))
        connection.isolation_level = isolation_level
        connection.autocommit = autocommit
        return connection

    yield connect
    for connection in opened:
        connection.close()


@pytest.fixture(scope="session")
def _watcher(django_db_setup: None) -> Iterator[None]:
    with guards.watcher():
        yield


@pytest.fixture(autouse=True)
def _nothing_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves sessions on its database or threads behind."""
    uses_database, transactional = guards.database_use(request.node)
    if uses_database:
        # Asked for here, so that this guard ends first: a session left behind with locks would
        # otherwise hang the flush that transactional_db ends with.
        request.getfixturevalue("transactional_db" if transactional else "db")
        request.getfixturevalue("_watcher")
    threads = set(threading.enumerate())
    sessions = set(guards.sessions()) if uses_database else set()
    yield
    left = guards.threads_left(threads)
    if uses_database:
        left += guards.sessions_left(sessions)
    if left:
        pytest.fail("left behind: " + "; ".join(left), pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """After a test that used the database, empty the queue.

    The queue's tables are unmanaged, so Django's flush leaves them alone. A hook and not a
    fixture, since it has to come after the end of the last fixture (``db`` rolls back there).
    """
    try:
        yield
    finally:
        if guards.database_use(item)[0] and guards.is_set_up():
            guards.empty_queue()
