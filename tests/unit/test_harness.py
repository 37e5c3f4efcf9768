"""The guards and waits that all other tests lean on do see what they are there for."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

import psycopg
import pytest

from tests import pgplugin
from tests.conftest import Connect
from tests.waiting import eventually, wait_until_blocked

ROOT = Path(__file__).resolve().parents[2]

CARELESS = """
from __future__ import annotations
import threading
import psycopg
import pytest
from psycopg import sql
from tests import guards

kept = []
guards.PATIENCE = 0.5

def leave(text):
    session = psycopg.connect(guards.address(), application_name="careless")
    session.execute(text)
    kept.append(session)
    return session

@pytest.fixture(scope="module")
def outsider(django_db_setup):
    with psycopg.connect(guards.address(), application_name="outsider") as session:
        yield session

@pytest.mark.django_db(transaction=True)
def test_leaves_a_lock_on_the_queue(outsider, schema):
    outsider.execute(sql.SQL("lock table {}").format(sql.Identifier(schema, "_private_jobs")))

@pytest.mark.django_db(transaction=True)
def test_lets_it_go(outsider):
    outsider.rollback()

@pytest.mark.django_db(transaction=True)
def test_leaves_a_session_that_locks_what_django_flushes():
    leave("lock table django_content_type in access exclusive mode")

@pytest.mark.django_db
def test_leaves_a_session():
    leave("select 1")

def test_leaves_a_thread():
    release = threading.Event()
    kept.append(release)
    threading.Thread(target=release.wait, name="careless", daemon=True).start()

def test_leaves_rows(connect, schema):
    connect().execute(
        sql.SQL("insert into {} (identifier) values ('left')").format(
            sql.Identifier(schema, "_private_tasks")))

def test_finds_no_rows(connect, schema):
    assert connect().execute(
        sql.SQL("select count(*) from {}").format(
            sql.Identifier(schema, "_private_tasks"))).fetchone() == (0,)

@pytest.mark.django_db(transaction=True)
def test_writes_to_djangos_tables():
    from django.contrib.auth.models import Permission, User
    User.objects.create_user("careless")
    assert Permission.objects.all().delete()[0]

@pytest.mark.django_db(transaction=True)
def test_updates_djangos_tables():
    from django.contrib.auth.models import Permission, User
    assert not User.objects.exists()
    assert Permission.objects.update(name="careless")

@pytest.mark.django_db(transaction=True)
def test_finds_djangos_tables_as_they_were():
    from django.contrib.auth.models import Permission
    assert Permission.objects.exists()
    assert not Permission.objects.filter(name="careless").exists()

@pytest.mark.node
def test_needs_node():
    raise AssertionError

def test_warns():
    import warnings
    warnings.warn("this is an error")
"""


def run_pytest(
    *arguments: str, folder: Path, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A run of its own, with a PostgreSQL of its own."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in {"DATABASE_URL", "DGW_REQUIRE"} and not name.startswith("PYTEST_")
    }
    return subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider"),
            *("-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), *arguments, str(folder)),
        ],
        cwd=ROOT,
        env=environment | dict(env or {}),
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_test_that_leaves_something_behind_fails_alone_and_is_told_what(tmp_path: Path) -> None:
    (tmp_path / "test_careless.py").write_text(CARELESS)
    report = tmp_path / "report.xml"
    ended = run_pytest(
        *("-p", "no:randomly", f"--junitxml={report}"),
        folder=tmp_path,
        env={"GRAPHILE_WORKER_NODE": str(tmp_path)},
    )
    assert ended.returncode == 1, ended.stdout + ended.stderr
    faults = {
        case.get("name"): " ".join((fault.text or "") for fault in case)
        for case in ElementTree.parse(report).iter("testcase")
    }
    assert set(faults) == {
        "test_leaves_a_lock_on_the_queue",
        "test_lets_it_go",
        "test_leaves_a_session_that_locks_what_django_flushes",
        "test_leaves_a_session",
        "test_leaves_a_thread",
        "test_leaves_rows",
        "test_finds_no_rows",
        "test_writes_to_djangos_tables",
        "test_updates_djangos_tables",
        "test_finds_djangos_tables_as_they_were",
        "test_needs_node",
        "test_warns",
    }
    assert "_private_jobs is locked by one of: " in (
        locked := faults.pop("test_leaves_a_lock_on_the_queue")
    )
    assert "(outsider, idle in transaction, last query: lock table" in locked
    assert "(careless, idle in transaction, last query: lock table" in faults.pop(
        "test_leaves_a_session_that_locks_what_django_flushes"
    )
    assert "(careless, idle in transaction, last query: select 1)" in faults.pop(
        "test_leaves_a_session"
    )
    assert "left behind: thread careless" in faults.pop("test_leaves_a_thread")
    assert "UserWarning: this is an error" in faults.pop("test_warns")
    assert "left out: the npm package graphile-worker" in faults.pop("test_needs_node")
    assert "\nnode tests left out: the npm package graphile-worker" in ended.stdout
    assert set(faults.values()) == {""}
    # An error is what pytest calls a test that passed and failed at its end.
    assert "1 failed, 10 passed, 1 skipped, 4 errors" in ended.stdout


def test_what_is_required_and_missing_stops_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = run_pytest(
        folder=tmp_path, env={"DGW_REQUIRE": "node", "GRAPHILE_WORKER_NODE": str(tmp_path)}
    )
    assert ended.returncode == pytest.ExitCode.USAGE_ERROR
    assert "node tests are required by DGW_REQUIRE: " in ended.stderr
    monkeypatch.setenv("DGW_REQUIRE", "knots")
    with pytest.raises(
        pytest.UsageError, match="DGW_REQUIRE knows node, browser, pgbouncer, not 'knots'"
    ):
        pgplugin.check_required()


def test_an_assertion_is_tried_until_it_holds() -> None:
    seen: list[int] = []

    def third_time() -> int:
        seen.append(len(seen))
        assert len(seen) == 3
        return len(seen)

    assert eventually(third_time) == 3


def test_an_assertion_that_never_holds_fails_with_its_own_words() -> None:
    def never() -> None:
        raise AssertionError("not today")

    with pytest.raises(AssertionError, match="not today"):
        eventually(never, within=0.05)


def test_other_errors_are_not_tried_again() -> None:
    seen: list[int] = []

    def broken() -> None:
        seen.append(1)
        raise LookupError

    with pytest.raises(LookupError):
        eventually(broken)
    assert seen == [1]


def test_a_blocked_session_is_seen_with_who_blocks_it(connect: Connect) -> None:
    holder, waiter, observer = connect(autocommit=False), connect(), connect()
    holder.execute("lock table django_content_type in access exclusive mode")
    thread = threading.Thread(target=waiter.execute, args=["table django_content_type"])
    thread.start()
    try:
        pid = waiter.info.backend_pid
        assert wait_until_blocked(observer, pid) == [holder.info.backend_pid]
        wait_until_blocked(observer, pid, by=holder.info.backend_pid)
        with pytest.raises(AssertionError, match=f"not blocked by {observer.info.backend_pid}"):
            wait_until_blocked(observer, pid, by=observer.info.backend_pid, within=0.05)
    finally:
        holder.rollback()
        thread.join()


def test_a_session_that_is_not_blocked_is_told_apart(connect: Connect) -> None:
    idle, observer = connect(), connect()
    with pytest.raises(AssertionError, match=r"does not wait on a lock\. backend \d+: idle"):
        wait_until_blocked(observer, idle.info.backend_pid, within=0.05)
    with pytest.raises(AssertionError, match="there is no backend 0"):
        wait_until_blocked(observer, 0, within=0.05)
    with pytest.raises(ValueError, match="autocommit"):
        wait_until_blocked(connect(autocommit=False), 0)


def test_sessions_are_opened_as_asked(connect: Connect) -> None:
    plain = connect()
    plain.execute("create role careful")
    try:
        careful = connect(
            role="careful",
            autocommit=False,
            isolation_level=psycopg.IsolationLevel.SERIALIZABLE,
            application_name="with care",
        )
        row = careful.execute(
            "select current_user, current_setting('transaction_isolation'),"
            " current_setting('application_name'), current_database()"
        ).fetchone()
        assert row is not None
        assert row[:3] == ("careful", "serializable", "with care")
        assert row[3].startswith("test_")
        careful.close()
    finally:
        plain.execute("drop role careful")
