"""What the documentation names is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
COMPATIBILITY = ROOT / "docs" / "compatibility.md"

# The cell that holds the name of a test stands last in these tables.
NODE_TABLES = ("What is shared", "Where they differ")


def all_tests() -> set[str]:
    """The names of all tests."""
    return {
        node.name
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    }


def named(text: str) -> set[str]:
    return set(re.findall(r"`(test_\w+)`", text))


def table(page: str, title: str) -> list[str]:
    """The rows of the one table under a title, which nothing may cut in two."""
    section = page.split(f"\n## {title}\n")[1].split("\n## ")[0]
    tables: list[str] = re.findall(r"(?:^\|.*\n)+", section, re.MULTILINE)
    assert len(tables) == 1, title
    head, rule, *rows = tables[0].splitlines()
    assert re.fullmatch(r"[|-]+", rule), rule
    assert {row.count(" | ") for row in rows} == {head.count("|") - 2}
    return rows


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_tests_that_a_page_names_exist(page: Path) -> None:
    assert named(page.read_text(encoding="utf-8")) - all_tests() == set()


@pytest.mark.parametrize("title", NODE_TABLES)
def test_each_line_about_node_names_its_test(title: str) -> None:
    rows = table(COMPATIBILITY.read_text(encoding="utf-8"), title)
    assert len(rows) > 4
    assert [row for row in rows if not named(row.split(" | ")[-1])] == []


def test_each_line_about_rust_is_marked_as_read() -> None:
    page = COMPATIBILITY.read_text(encoding="utf-8")
    assert len(table(page, "Rust")) > 4
    assert re.search(r"^\| \| Rust [\d.]+ \(read\) \|", page, re.MULTILINE)
