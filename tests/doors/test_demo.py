"""The demo: its judgement, what it shows, and that it ends without a trace, however it is ended."""

from __future__ import annotations

import io
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit, urlunsplit
from urllib.request import HTTPCookieProcessor, build_opener

import psycopg
import pytest
from psycopg import sql

from testproject.demo.demonstration import Demonstration, Progress
from testproject.demo.screen import Screen
from testproject.demo.verdict import Calls, Exit, Verdict, judge
from tests.conftest import Connect
from tests.waiting import eventually, wait_until_blocked

ROOT = Path(__file__).resolve().parents[2]

Start = Callable[..., subprocess.Popen[str]]


def calls(first: int, count: int, *, missing: Any = (), failed: Any = ()) -> Calls:
    return Calls(range(first, first + count), frozenset(missing), frozenset(failed))


def verdict(**figures: Any) -> Verdict:
    sound = {"calls": 1000, "rows": 1000, "missing": 0, "lost": 0, "errors": 0, "deadlocks": 0}
    return Verdict(**{**sound, "supersedings": 100, "runs": 500, "seconds": 2.0, **figures})


# The judgement


def test_a_number_that_no_run_carried_is_lost() -> None:
    judged = judge(
        [calls(0, 5), calls(5, 5)],
        [[0, 1, 2], [3], [5, 6, 7, 8, 9], [9]],
        deadlocks=0,
        supersedings=7,
        seconds=1.5,
    )
    assert judged == Verdict(
        calls=10,
        rows=10,
        missing=0,
        lost=1,
        errors=0,
        deadlocks=0,
        supersedings=7,
        runs=4,
        seconds=1.5,
    )


def test_a_call_without_a_row_is_missing_and_lost_unless_a_run_carried_it() -> None:
    judged = judge(
        [calls(0, 4, missing=[1, 2])], [[0, 3, 2]], deadlocks=0, supersedings=None, seconds=1
    )
    assert (judged.rows, judged.missing, judged.lost) == (2, 2, 1)


def test_what_raised_was_not_committed_and_is_an_error_instead() -> None:
    judged = judge([calls(0, 3, failed=[1])], [[0, 2]], deadlocks=0, supersedings=0, seconds=1)
    assert (judged.rows, judged.errors, judged.lost) == (2, 1, 0)


def test_a_scheduler_that_ran_twice_is_counted_once() -> None:
    judged = judge(
        [calls(0, 3), calls(0, 3)], [[0, 1, 2], [0]], deadlocks=0, supersedings=0, seconds=1
    )
    assert (judged.calls, judged.rows, judged.lost) == (3, 3, 0)


@pytest.mark.parametrize(
    ("figures", "code"),
    [
        ({}, Exit.NOTHING_LOST),
        ({"supersedings": None}, Exit.NOTHING_LOST),
        ({"missing": 1}, Exit.LOST),
        ({"lost": 1}, Exit.LOST),
        ({"deadlocks": 1}, Exit.LOST),
        ({"errors": 1}, Exit.LOST),
        ({"calls": 399}, Exit.INCONCLUSIVE),
        ({"supersedings": 9}, Exit.INCONCLUSIVE),
        ({"calls": 399, "lost": 1}, Exit.LOST),
    ],
)
def test_the_exit_code_says_it(figures: dict[str, Any], code: Exit) -> None:
    assert verdict(**figures).exit_code is code


def test_deadlocks_are_counted_also_those_that_a_caller_never_sees(connect: Connect) -> None:
    demonstration = Demonstration(1, None)
    assert demonstration.verdict().deadlocks == 0
    first, second, observer = connect(autocommit=False), connect(autocommit=False), connect()
    lock = "lock table {} in exclusive mode"
    first.execute(lock.format("reported_batch"))
    second.execute(lock.format("reported_printerrun"))
    raised: list[psycopg.Error] = []

    def wait_in_a_circle() -> None:
        try:
            first.execute(lock.format("reported_printerrun"))
        except psycopg.Error as error:
            raised.append(error)
        first.rollback()

    thread = threading.Thread(target=wait_in_a_circle)
    thread.start()
    wait_until_blocked(observer, first.info.backend_pid)
    try:
        second.execute(lock.format("reported_batch"))
    except psycopg.Error as error:
        raised.append(error)
    second.rollback()
    thread.join()
    assert [error.sqlstate for error in raised] == ["40P01"]
    for session in (first, second, observer):
        session.close()
    assert demonstration.verdict().deadlocks == 1


# The screen


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def progress(calls: int, left: int = 1) -> Progress:
    return Progress(calls=calls, missing=0, runs=1, supersedings=2, left=left)


def test_a_terminal_has_one_line_that_is_refreshed() -> None:
    stream = Terminal()
    screen = Screen(stream)
    for second in range(3):
        screen.show(second, progress(second * 1000))
    screen.say("end")
    lines = stream.getvalue().split("\n")
    assert [len(line.split("\r")) - 1 for line in lines] == [3, 0, 0]
    assert "2,000 calls" in lines[0].split("\r")[-1]
    assert lines[1:] == ["end", ""]


def test_a_file_gets_a_line_now_and_then_and_the_last_one() -> None:
    stream = io.StringIO()
    screen = Screen(stream)
    for second in range(1, 13):
        screen.show(second, progress(second * 1000, left=second < 12))
    lines = stream.getvalue().splitlines()
    assert [line.split()[0] for line in lines] == ["5", "10", "12"]
    assert "\r" not in stream.getvalue()


# The whole of it


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A folder for all temporary files of a demo, so that a trace would be seen in it."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def environment(temporary: Path, given: Mapping[str, str]) -> dict[str, str]:
    """This one's, but for what pytest has set."""
    own = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    return {**own, "TMPDIR": str(temporary), **given}


@pytest.fixture
def start(temporary: Path) -> Iterator[Start]:
    """Start the demo in a group of its own, as a shell makes it; killed if the test fails."""
    started: list[subprocess.Popen[str]] = []

    def start(
        *arguments: str, stdout: int = subprocess.PIPE, given: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "testproject.demo", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment(temporary, given or {}),
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        finish(process)


def finish(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Wait until every process that holds its standard error is gone: the server's keeper does."""
    try:
        return process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        process.kill()
        raise


def line_of(process: subprocess.Popen[str]) -> str:
    """The next line that a demo prints; there must be one."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, finish(process)[1]
    return line


def figures(said: str) -> dict[str, int]:
    """The verdict's lines."""
    found = re.findall(r"^  (\w+(?: \w+)?) +([\d,]+)(?: |$)", said, re.MULTILINE)
    return {name: int(figure.replace(",", "")) for name, figure in found}


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not fetched yet does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    try:
        return state.read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return not Path("/proc/self").exists()


def worker_of(said: str) -> int:
    """The worker's process, from what the demo prints."""
    found = re.search(r"\(process (\d+)\)", said)
    assert found is not None, said
    return int(found[1])


@pytest.fixture
def given_database() -> Iterator[str]:
    """The address of an empty database that somebody else runs."""
    server = os.environ["DATABASE_URL"]
    name = f"demo_{secrets.token_hex(4)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        yield urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
        # Not by force: a session that is left would be a fault.
        connection.execute(sql.SQL("drop database {}").format(sql.Identifier(name)))


def test_on_our_functions_nothing_is_lost_and_nothing_is_left(
    start: Start, temporary: Path, schema: str
) -> None:
    process = start("--seconds", "2", "--keep")
    out = ""
    while not (url := re.search(r"DATABASE_URL=(\S+)", out)):
        out += line_of(process)
    with psycopg.connect(url[1]) as connection:
        conflicts = connection.execute(
            sql.SQL("select count(*) from {}").format(
                sql.Identifier(schema, "django_key_conflicts")
            )
        ).fetchone()
    process.send_signal(signal.SIGINT)
    _, errors = finish(process)
    assert (process.returncode, errors) == (0, ""), out + errors
    seen = figures(out)
    assert seen["calls"] == seen["rows"] >= 400
    assert (seen["missing"], seen["lost"], seen["deadlocks"], seen["errors"]) == (0, 0, 0, 0)
    assert (seen["supersedings"],) == conflicts
    assert seen["supersedings"] >= 10
    assert 0 < seen["printer runs"] <= seen["calls"]
    assert "PASSED: nothing was lost." in out
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("variant", ["no_row", "holder_returned"])
def test_on_the_faults_shape_requests_are_lost(
    variant: str, temporary: Path, given_database: str, start: Start
) -> None:
    process = start(
        *("--uncorrected", "--variant", variant, "--seconds", "5"),
        given={"DATABASE_URL": given_database},
    )
    out, errors = finish(process)
    assert (process.returncode, errors) == (1, ""), out + errors
    assert "LOST, as was to be expected of these functions." in out
    seen = figures(out)
    assert seen["lost"] > 0
    if variant == "no_row":
        assert seen["missing"] == seen["calls"] - seen["rows"] == seen["lost"]
    else:
        assert seen["missing"] == 0
    with psycopg.connect(given_database) as connection:
        schemas = connection.execute(
            "select count(*) from pg_namespace where nspname like 'uncorrected%'"
        ).fetchone()
        assert schemas == (0,)
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGKILL", -9)])
def test_worker_and_server_go_when_the_demo_is_ended_by(
    name: str, code: int, temporary: Path, start: Start
) -> None:
    terminal, end = os.openpty()
    process = start("--seconds", "60", stdout=end)
    os.close(end)
    said = ""
    try:
        while not re.search(r"[1-9][\d,]* printer runs", said):
            said += os.read(terminal, 4096).decode()
        worker = worker_of(said)
        assert alive(worker)
        # What a terminal does on Ctrl-C, or worse; the worker and the server do not hear of it.
        os.killpg(process.pid, getattr(signal, name))
        _, errors = finish(process)
    finally:
        process.kill()
        os.close(terminal)
    assert (process.returncode, errors) == (code, "Stopped.\n" if name == "SIGINT" else "")

    def all_gone() -> None:
        assert not alive(worker)
        assert list(temporary.iterdir()) == []

    eventually(all_gone, within=30)


def test_a_demo_that_is_ended_leaves_no_jobs_in_a_given_database(
    given_database: str, start: Start, schema: str
) -> None:
    process = start("--seconds", "60", given={"DATABASE_URL": given_database})
    said = ""
    while "calls  " not in said:
        said += line_of(process)
    process.send_signal(signal.SIGTERM)
    _, errors = finish(process)
    assert (process.returncode, errors) == (128 + signal.SIGTERM, "")
    assert not alive(worker_of(said))
    with psycopg.connect(given_database) as connection:
        jobs = connection.execute(
            sql.SQL("select count(*) from {}").format(sql.Identifier(schema, "_private_jobs"))
        ).fetchone()
        assert jobs == (0,)


def test_the_admin_is_served_with_live_traffic_until_ctrl_c(
    given_database: str, start: Start, schema: str
) -> None:
    process = start("--serve", given={"DATABASE_URL": given_database})
    said = ""
    while not (
        login := re.search(r"(http://127\.0\.0\.1:\d+)(\S+)\s+user (\S+), password (\S+)", said)
    ):
        said += line_of(process)
    host, page, name, password = login.groups()
    visitor = build_opener(HTTPCookieProcessor(cookies := CookieJar()))
    with visitor.open(host + page) as response:
        assert "/login/" in response.url
    token = next(cookie.value for cookie in cookies if cookie.name == "csrftoken")
    sent = {"username": name, "password": password, "csrfmiddlewaretoken": token}
    with visitor.open(response.url, urlencode(sent).encode()) as response:
        assert response.url == host + page
        read = response.read().decode()
    for address in re.findall(r'<link[^>]* href="(/static/[^"]+)"', read):
        assert visitor.open(host + address).status == 200

    with psycopg.connect(given_database, autocommit=True) as connection:

        def a_key_is_fought_over() -> None:
            count = "select count(*) from {}"
            table = sql.Identifier(schema, "django_key_conflicts")
            assert connection.execute(sql.SQL(count).format(table)).fetchone() != (0,)

        eventually(a_key_is_fought_over, within=60)
    process.send_signal(signal.SIGINT)
    _, errors = finish(process)
    assert (process.returncode, errors) == (0, "")
    with psycopg.connect(given_database) as connection:
        for table in (sql.Identifier(schema, "_private_jobs"), sql.Identifier("auth_user")):
            rows = connection.execute(sql.SQL("select * from {}").format(table)).fetchall()
            assert rows == []


def test_a_worker_that_dies_is_told(given_database: str, start: Start) -> None:
    process = start("--seconds", "60", given={"DATABASE_URL": given_database})
    os.kill(worker_of(line_of(process) + line_of(process)), signal.SIGKILL)
    _, errors = finish(process)
    assert process.returncode == 2
    assert errors.startswith("demo: the worker ended with -9:")
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("arguments", "given", "message"),
    [
        ([], {"PG_BIN": "/nowhere"}, "demo: No PostgreSQL"),
        (
            [],
            {"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/there"},
            "demo: DATABASE_URL (dbname=there user=nobody host=127.0.0.1 port=1) cannot be reached",
        ),
        (["--variant", "no_row"], {}, "--variant is for --uncorrected"),
        (["--serve", "--keep"], {}, "--serve goes with --concurrency and --port only"),
        (["--port", "8000"], {}, "--port is for --serve"),
        (["--seconds", "0"], {}, "argument --seconds: invalid seconds value: '0'"),
        (["--concurrency", "1"], {}, "argument --concurrency: invalid slots value: '1'"),
    ],
)
def test_what_is_wrong_is_said_without_a_traceback(
    arguments: list[str], given: dict[str, str], message: str, start: Start
) -> None:
    process = start(*arguments, given=given)
    out, errors = finish(process)
    assert (process.returncode, out) == (2, "")
    assert message in errors
    assert "Traceback" not in errors


def test_the_extra_that_is_missing_is_named(start: Start, temporary: Path) -> None:
    (temporary / "environ.py").write_text("raise ModuleNotFoundError('No module named environ')")
    process = start(given={"PYTHONPATH": str(temporary)})
    _, errors = finish(process)
    assert process.returncode == 2
    assert errors == ('demo: No module named environ. Run: python -m pip install -e ".[demo]"\n')
