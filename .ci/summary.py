"""The last word of ``.ci/run``: a table of what ran, and whether all of it did and passed.

``summary.py WORK ENVIRONMENT...`` reads the reports, never the intentions: an environment without
a result, or without tests, has failed.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

# These run a tool and no tests.
WITHOUT_TESTS = {"lint", "package"}


@dataclass
class Row:
    name: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    again: int = 0
    node: int = 0
    seconds: float = 0
    faults: list[str] = field(default_factory=list)


def read_report(row: Row, report: Path, *, may_leave_out: bool = False) -> None:
    """Count the tests of a JUnit report."""
    if not report.is_file():
        row.faults.append("no report")
        return
    # A test that was run once more has a case for each time, and only the last may say that it
    # failed.
    runs: dict[tuple[str | None, str | None], list[ElementTree.Element]] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        runs.setdefault((case.get("classname"), case.get("name")), []).append(case)
    for (classname, name), cases in runs.items():
        row.again += len(cases) > 1
        skipped = cases[-1].find("skipped")
        if any(
            case.find("failure") is not None or case.find("error") is not None for case in cases
        ):
            row.failed += 1
        elif skipped is not None:
            row.skipped += 1
            if not may_leave_out and skipped.get("message", "").startswith("left out"):
                row.faults.append(f"left out: {classname}.{name}")
        else:
            row.passed += 1
            row.node += any(mark.get("value") == "node" for mark in cases[-1].iter("property"))
    if not row.passed:
        row.faults.append("no test passed")
    if row.failed:
        row.faults.append(f"{row.failed} failed")


def readme(work: Path) -> Row:
    row = Row("README: tests")
    read_report(row, work / "readme-test.xml", may_leave_out=True)
    return row


def environment(name: str, results: dict[str, Any]) -> Row:
    """What tox says of an environment, and what pytest says where tests ran."""
    row = Row(name)
    result = results.get(name, {}).get("result")
    if not result:
        row.faults.append("did not run")
        return row
    row.seconds = result["duration"]
    if result.get("skipped"):
        row.faults.append("was skipped")
    if not result["success"]:
        row.faults.append(f"ended with {result['exit_code']}")
    if name not in WITHOUT_TESTS:
        read_report(row, Path(".tox") / name / "report.xml")
        if "-pg" not in name and "-browser" not in name and not row.node:
            row.faults.append("no test with Node passed")
    return row


def main(work: Path, names: list[str]) -> int:
    results: dict[str, Any] = {}
    for told in work.glob("tox*.json"):
        # Each names every environment there is, with nothing for those that were not its part.
        told_of = json.loads(told.read_text())["testenvs"]
        results |= {name: env for name, env in told_of.items() if env and env.get("result")}
    rows = [readme(work), *(environment(name, results) for name in names)]
    print(f"{'':24}{'passed':>8}{'failed':>8}{'skipped':>8}{'again':>7}{'node':>6}{'seconds':>9}")
    for row in rows:
        print(
            f"{row.name:24}{row.passed:8}{row.failed:8}{row.skipped:8}{row.again:7}{row.node:6}"
            f"{row.seconds:9.0f}  {'; '.join(row.faults) or 'ok'}"
        )
    other = work / "failures"
    faults = other.read_text().splitlines() if other.is_file() else []
    faults += [f"{row.name}: {fault}" for row in rows for fault in row.faults]
    for fault in faults:
        print(f"FAILED {fault}")
    failed = sum(row.failed for row in rows)
    # A fault without a failed test is a failure all the same, and the last line must say so.
    failed = failed or len(faults)
    if again := sum(row.again for row in rows):
        print(f"{again} run a second time")
    print(f"{sum(row.passed for row in rows)} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
