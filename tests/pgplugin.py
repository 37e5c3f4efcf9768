"""Starts PostgreSQL before anything reads the settings, and says what a run left out.

Loaded with ``-p``, since pytest-django reads the settings before any conftest is seen. Workers of
pytest-xdist inherit ``DATABASE_URL``, so one server serves them all.

``DGW_REQUIRE=node,browser,pgbouncer`` makes what is named compulsory: without it the run does not
begin.
"""

from __future__ import annotations

import os
import platform
import signal
from contextlib import AbstractContextManager

import pytest

from testproject import postgres
from tests import node, pgbouncer

OPTIONAL = ("node", "browser", "pgbouncer")

_manager: AbstractContextManager[postgres.Server] | None = None
_server: postgres.Server | None = None


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    global _manager, _server
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell starts what it runs in the background so, and the programs that the tests start
        # and then interrupt would inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    check_required()
    manager = postgres.database()
    try:
        _server = manager.__enter__()
    except postgres.PostgresUnavailable as error:
        raise pytest.UsageError(str(error)) from error
    _manager = manager
    os.environ["DATABASE_URL"] = _server.url
    early_config.add_cleanup(stop)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--storm-seconds",
        type=float,
        default=20,
        metavar="N",
        help="how long the storm of tests/database/test_storm.py lasts (20)",
    )
    parser.addoption(
        "--fleet-seconds",
        type=float,
        default=4,
        metavar="N",
        help="how long the storms of tests/compatibility/test_mixed_keys.py last (4)",
    )
    parser.addoption(
        "--adoption-rounds",
        type=int,
        default=2,
        metavar="N",
        help="how often tests/compatibility/test_adoption_at_once.py begins anew (2)",
    )


def stop() -> None:
    global _manager
    if _manager is not None:
        manager, _manager = _manager, None
        manager.__exit__(None, None, None)


def missing() -> dict[str, str]:
    """What of the optional things this machine lacks, and why."""
    lacks = {}
    if (why := node.missing()) is not None:
        lacks["node"] = why
    if (why := node.browser_missing()) is not None:
        lacks["browser"] = why
    if (why := pgbouncer.missing()) is not None:
        lacks["pgbouncer"] = why
    return lacks


def check_required() -> None:
    lacks = missing()
    for name in filter(None, os.environ.get("DGW_REQUIRE", "").split(",")):
        if name not in OPTIONAL:
            raise pytest.UsageError(f"DGW_REQUIRE knows {', '.join(OPTIONAL)}, not {name!r}")
        if name in lacks:
            raise pytest.UsageError(f"{name} tests are required by DGW_REQUIRE: {lacks[name]}")


def pytest_report_header() -> list[str]:
    import django
    import psycopg

    lines = [
        f"python {platform.python_version()}, django {django.get_version()}, "
        f"psycopg {psycopg.__version__} ({psycopg.pq.__impl__})"
    ]
    if _server is not None:
        lines.append(f"database: {_server}")
    return lines


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    lacks = missing()
    for item in items:
        for name in filter(item.get_closest_marker, OPTIONAL):
            item.user_properties.append(("marker", name))  # for who reads the JUnit report
            if name in lacks:
                item.add_marker(pytest.mark.skip(reason=f"left out: {lacks[name]}"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for name, why in missing().items():
        terminalreporter.write_line(f"{name} tests left out: {why}", yellow=True)
    for line in pytest_report_header():
        terminalreporter.write_line(line)
