"""The last word of ``.ci/run`` lets no lack pass."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SUMMARY = Path(__file__).resolve().parents[2] / ".ci" / "summary.py"

PASSED = "<testcase classname='tests' name='one'/>"
NODE = (
    "<testcase classname='tests' name='two'>"
    "<properties><property name='marker' value='node'/></properties></testcase>"
)
FAILED = "<testcase classname='tests' name='three'><failure message='no'/></testcase>"
BROKEN = "<testcase classname='tests' name='four'><error message='no'/></testcase>"
SKIPPED = "<testcase classname='tests' name='five'><skipped message='only on Windows'/></testcase>"
LEFT_OUT = (
    "<testcase classname='tests' name='six'><skipped message='left out: no Node'/></testcase>"
)


@pytest.fixture
def done(tmp_path: Path) -> Path:
    """The traces of a run in which all went well."""
    say(tmp_path, "lint", "py", "py-pg14")
    report(tmp_path / "readme-test.xml", PASSED, LEFT_OUT)
    report(tmp_path / ".tox" / "py" / "report.xml", PASSED, NODE, SKIPPED)
    report(tmp_path / ".tox" / "py-pg14" / "report.xml", PASSED)
    return tmp_path


def say(folder: Path, *names: str, **result: Any) -> None:
    result = {"success": True, "exit_code": 0, "duration": 1.5} | result
    told = {"testenvs": {name: {"result": result} for name in names}}
    (folder / "tox.json").write_text(json.dumps(told))


def report(path: Path, *cases: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")


def summary(folder: Path) -> tuple[int, list[str]]:
    ended = subprocess.run(
        [sys.executable, str(SUMMARY), str(folder), "lint", "py", "py-pg14"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stderr == ""
    return ended.returncode, ended.stdout.splitlines()


def test_all_that_ran_and_passed_is_counted(done: Path) -> None:
    code, lines = summary(done)
    assert (code, lines[-1]) == (0, "4 passed, 0 failed")


def test_a_test_that_was_run_again_is_counted_once_and_told_of(done: Path) -> None:
    report(done / ".tox" / "py" / "report.xml", PASSED, PASSED, NODE)
    code, lines = summary(done)
    assert (code, lines[-2:]) == (0, ["1 run a second time", "4 passed, 0 failed"])
    assert [line.split()[4] for line in lines if line.startswith("py ")] == ["1"]


@pytest.mark.parametrize(
    ("name", "cases", "fault", "last"),
    [
        ("py", (PASSED, NODE, FAILED), "1 failed", "4 passed, 1 failed"),
        (
            "py",
            (PASSED, NODE, FAILED.replace("<failure message='no'/>", ""), FAILED),
            "1 failed",
            "4 passed, 1 failed",
        ),
        ("py", (PASSED, NODE, BROKEN), "1 failed", "4 passed, 1 failed"),
        ("py", (PASSED, NODE, LEFT_OUT), "left out: tests.six", "4 passed, 1 failed"),
        ("py", (PASSED,), "no test with Node passed", "3 passed, 1 failed"),
        ("py-pg14", (), "no test passed", "3 passed, 1 failed"),
        ("py-pg14", (SKIPPED,), "no test passed", "3 passed, 1 failed"),
    ],
)
def test_a_report_with_a_fault_fails_the_run(
    done: Path, name: str, cases: tuple[str, ...], fault: str, last: str
) -> None:
    report(done / ".tox" / name / "report.xml", *cases)
    code, lines = summary(done)
    assert f"FAILED {name}: {fault}" in lines
    assert (code, lines[-1]) == (1, last)


def test_an_environment_that_did_not_run_fails_the_run(done: Path) -> None:
    say(done, "lint", "py")
    code, lines = summary(done)
    assert "FAILED py-pg14: did not run" in lines
    assert (code, lines[-1]) == (1, "3 passed, 1 failed")


def test_the_reports_of_several_runs_of_tox_are_put_together(done: Path) -> None:
    say(done, "lint", "py")
    others = json.loads((done / "tox.json").read_text())
    say(done, "py-pg14")
    last = json.loads((done / "tox.json").read_text())
    last["testenvs"] |= {"lint": {"result": None}, "py": {"result": None}}
    (done / "tox-1.json").write_text(json.dumps(others))
    (done / "tox.json").write_text(json.dumps(last))
    code, lines = summary(done)
    assert (code, lines[-1]) == (0, "4 passed, 0 failed")


def test_an_environment_that_was_skipped_fails_the_run(done: Path) -> None:
    say(done, "lint", "py", "py-pg14", skipped=True)
    code, lines = summary(done)
    assert "FAILED py: was skipped" in lines
    assert code == 1


def test_an_environment_without_a_report_fails_the_run(done: Path) -> None:
    (done / ".tox" / "py" / "report.xml").unlink()
    code, lines = summary(done)
    assert "FAILED py: no report" in lines
    assert code == 1


def test_an_environment_that_tox_fails_fails_the_run(done: Path) -> None:
    say(done, "lint", "py", "py-pg14", success=False, exit_code=7)
    code, lines = summary(done)
    assert "FAILED lint: ended with 7" in lines
    assert code == 1


def test_what_failed_outside_of_tox_fails_the_run(done: Path) -> None:
    (done / "failures").write_text("npm ci\n")
    code, lines = summary(done)
    assert "FAILED npm ci" in lines
    assert (code, lines[-1]) == (1, "4 passed, 1 failed")


def test_nothing_at_all_fails_the_run(tmp_path: Path) -> None:
    code, lines = summary(tmp_path)
    assert code == 1
    assert lines[-1].startswith("0 passed, ")
