"""What is said of the package in several places is the same in all of them."""

from __future__ import annotations

import configparser
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import django_graphile_worker

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        found: dict[str, Any] = tomllib.load(file)["project"]
    return found


@pytest.fixture(scope="module")
def environments() -> list[str]:
    """Every environment of tox, each brace written out."""
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")

    def spelled_out(text: str) -> list[str]:
        match = re.search(r"\{([^{}]*)\}", text)
        if match is None:
            return [text]
        ends = text[: match.start()], text[match.end() :]
        return [
            name for part in match[1].split(",") for name in spelled_out(ends[0] + part + ends[1])
        ]

    return [name for line in tox["tox"]["env_list"].split() for name in spelled_out(line)]


def classified(project: dict[str, Any], prefix: str) -> set[str]:
    """The versions in the classifiers that begin so, without their dots."""
    pattern = re.compile(re.escape(prefix) + r" :: (\d+\.\d+)")
    return {
        match[1].replace(".", "")
        for line in project["classifiers"]
        if (match := pattern.match(line))
    }


def test_the_package_can_be_imported_before_django_is_set_up() -> None:
    environment = {k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"}
    ended = subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            "-c",
            "import django_graphile_worker as it; it.enqueue; it.task",
        ],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_the_version_is_one_that_package_indexes_take() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|(a|b|rc)\d+)?", django_graphile_worker.__version__)


def test_a_released_version_is_in_the_changelog() -> None:
    version = django_graphile_worker.__version__
    heading = "Unreleased" if "dev" in version else version
    assert f"\n## [{heading}]" in (ROOT / "CHANGELOG.md").read_text()


def test_it_says_that_it_is_typed(project: dict[str, Any]) -> None:
    assert "Typing :: Typed" in project["classifiers"]
    assert (ROOT / "django_graphile_worker" / "py.typed").is_file()


def test_every_python_and_django_it_names_is_tested(
    project: dict[str, Any], environments: list[str]
) -> None:
    pairs = [match for name in environments if (match := re.match(r"py(\d+)-django(\d+)$", name))]
    assert {match[1] for match in pairs} == classified(project, "Programming Language :: Python")
    assert {match[2] for match in pairs} == classified(project, "Framework :: Django")


def test_every_postgresql_is_tested(environments: list[str]) -> None:
    tested = {match[0] for name in environments if (match := re.search(r"pg\d+$", name))}
    assert tested == {"pg14", "pg15", "pg16", "pg17", "pg18"}


def test_what_the_demo_needs_the_tests_have(project: dict[str, Any]) -> None:
    assert "django-graphile-worker[demo]" in project["optional-dependencies"]["test"]


@pytest.mark.parametrize(
    "command",
    [
        'python -m pip install -e ".[demo]" && python -m testproject.demo',
        'python -m pip install -e ".[test]" && python -m pytest',
    ],
)
def test_the_readme_has_the_command_that_is_tried_on_a_fresh_machine(command: str) -> None:
    lines = [line.strip() for line in (ROOT / "README.md").read_text().splitlines()]
    assert command in lines
    assert command in (ROOT / ".ci" / "run").read_text()
