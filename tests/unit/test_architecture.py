"""The three laws of the layout, and the form of the SQL files.

1. Imports only go down, from a higher floor to a lower one; for type checking, too.
2. The worker's parts never import each other: only those that put them together do.
3. Only `statements/` and `operations/` read SQL files, and SQL stands nowhere else.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

PACKAGE = "django_graphile_worker"
ROOT = Path(__file__).resolve().parents[2] / PACKAGE

LONGEST = 260

# Every module has its floor; a package's name stands for what lies in it. A new module goes in here
# first: that is where one decides what it may know.
FLOORS: list[set[str]] = [
    {"exceptions", "jobs", "signals", "fields", "bounds"},
    {"conf", "sql", "payloads", "validation", "signatures", "context", "statements.base"},
    {"statements", "registry", "transactions", "tables", "readonly", "operations.editing"},
    {
        "requests",
        "records",
        "operations.published",
        "worker.service",
        "worker.identity",
        "worker.outages",
        "worker.errors",
        "worker.hygiene",
        "worker.line",
        "worker.deadlines",
        "worker.driving",
        "worker.logs",
        "worker.shutdown",
        "worker.parent",
        "worker.bell",
        "worker.pace",
        "worker.tally",
        "worker.reloading",
    },
    {
        "client",
        "models",
        "operations.adoption",
        "worker.connections",
        "worker.attempt",
        "worker.async_threads",
    },
    {"worker.watch", "worker.strangers", "operations.install"},
    {"operations"},
    {"installation"},
    {"schemas"},
    {"worker.endings", "worker.slots", "worker.child", "asynchronous"},
    {"worker.sync_slots", "worker.async_slot"},
    {"worker.async_slots"},
    {
        "worker.listener",
        "worker.fetcher",
        "worker.executor",
        "worker.completer",
        "worker.rescuer",
        "worker.keeper",
    },
    {"worker.closing"},
    {"worker.pool", "worker.supervisor", "management.arguments"},
    {"management.greeting"},
    {"checks", "redaction", "admin.base", "admin.verdicts", "admin.counts", "admin.charts"},
    {"admin.actions", "admin.job_lists", "admin.why", "admin.periods"},
    {"admin.job_actions", "admin.overview", "admin.pausing", "admin.trends", "admin.links"},
    {"admin.acting", "admin.job_page"},
    {"admin.jobs", "admin.unlock"},
    # The doors, and what only gathers: nothing imports these.
    {"", "apps", "admin", "migrations", "management", "templatetags", "worker"},
]

PARTS = {"listener", "fetcher", "executor", "completer", "rescuer", "keeper", "scheduler"}

# Who puts the parts of a worker together, or of what watches over several.
PUT_TOGETHER = {
    "worker.pool",
    "worker.closing",
    "worker.supervisor",
    "management.commands.graphile_worker",
}

READS_SQL = re.compile(r"(statements\.\w+|operations\.\w+)\Z")

# A string that begins like a statement, in one case throughout; what people read begins otherwise.
_STATEMENTS = (
    r"select|insert into|update \S+ set|delete from|with \S+ as|create|alter|drop|listen|notify"
    r"|truncate|begin|commit|rollback|set local|set session|lock table"
)
_EITHER_CASE = f"{_STATEMENTS}|{_STATEMENTS.upper()}".replace(" ", r"\s+")
SQL = re.compile(rf"\s*(?:{_EITHER_CASE})\s+(?:\S|\Z)")

Sources = Mapping[str, str]


def read_package() -> dict[str, str]:
    """Return the source of each module by its name within the package; "" is the package."""
    sources = {}
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        sources[name] = path.read_text(encoding="utf-8")
    return sources


def floor(module: str) -> int | None:
    """Return the floor of a module, by the longest name in the table that it lies under."""
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        name = ".".join(parts[:length])
        for number, names in enumerate(FLOORS):
            if name in names:
                return number
    return None


def imports(module: str, sources: Sources) -> Iterator[tuple[str, str]]:
    """Yield `(module, name)` for each import of something of ours, wherever it stands.

    The name is empty where a whole module is imported.
    """
    package = f"{PACKAGE}.{module}" if is_package(module, sources) else f"{PACKAGE}.{module}."
    for node in ast.walk(ast.parse(sources[module])):
        if isinstance(node, ast.Import):
            targets = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.rstrip(".").split(".")
                drop = node.level - 1 if is_package(module, sources) else node.level
                base = ".".join([*above[: len(above) - drop], *([base] if base else [])])
            targets = [(base, alias.name) for alias in node.names]
        else:
            continue
        for base, name in targets:
            if base != PACKAGE and not base.startswith(f"{PACKAGE}."):
                continue
            inner = base[len(PACKAGE) + 1 :]
            as_module = f"{inner}.{name}".strip(".")
            yield (as_module, "") if name and as_module in sources else (inner, name)


def is_package(module: str, sources: Sources) -> bool:
    return any(
        name.startswith(f"{module}." if module else "") for name in sources if name != module
    )


def upward_imports(sources: Sources) -> list[str]:
    found = []
    for module in sources:
        own = floor(module)
        if own is None:
            found.append(f"{module} has no floor")
            continue
        for target, name in imports(module, sources):
            below = floor(target)
            if target.startswith(f"{module}.") and module in ("admin", "management", "migrations"):
                continue  # within one door
            if below is None or below >= own:
                found.append(f"{module} (floor {own}) imports {target or PACKAGE} {name}".strip())
    return found


def parts_that_meet(sources: Sources) -> list[str]:
    parts = {f"worker.{part}" for part in PARTS}
    return [
        f"{module} imports {target}"
        for module in sources
        for target, _ in imports(module, sources)
        if target in parts and module not in PUT_TOGETHER
    ]


def sql_readers(sources: Sources) -> list[str]:
    # `quote` is about names, and models need it for db_table.
    return [
        module
        for module in sources
        for target, name in imports(module, sources)
        if target == "sql.loader" and name != "quote" and not READS_SQL.match(module)
    ]


def sql_strings(sources: Sources) -> list[str]:
    found = []
    for module, source in sources.items():
        tree = ast.parse(source)
        # Docstrings, and the strings under a field that serve as such.
        prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and id(node) not in prose
                and SQL.match(node.value)
            ):
                found.append(f"{module}:{node.lineno}: {node.value[:60]!r}")
    return found


def test_imports_only_go_down() -> None:
    assert upward_imports(read_package()) == []


def test_the_workers_parts_never_import_each_other() -> None:
    assert parts_that_meet(read_package()) == []


def test_only_statements_and_operations_read_sql() -> None:
    assert sql_readers(read_package()) == []


def test_sql_stands_in_sql_files_only() -> None:
    assert sql_strings(read_package()) == []


@pytest.mark.parametrize(
    ("law", "source"),
    [
        (upward_imports, {"registry": "from django_graphile_worker.client import enqueue"}),
        (upward_imports, {"registry": "from django_graphile_worker import client", "client": ""}),
        (upward_imports, {"registry": "def f():\n    import django_graphile_worker.client"}),
        (upward_imports, {"conf": "from . import client", "client": ""}),
        (upward_imports, {"conf": "from .client import enqueue", "client": ""}),
        (upward_imports, {"conf": "from django_graphile_worker import enqueue"}),
        (upward_imports, {"conf": "from django_graphile_worker import payloads", "payloads": ""}),
        (
            upward_imports,
            {
                "jobs": "from typing import TYPE_CHECKING\n"
                "if TYPE_CHECKING:\n    from django_graphile_worker.registry import Task"
            },
        ),
        (upward_imports, {"a_new_room": ""}),
        (
            parts_that_meet,
            {
                "worker": "",
                "worker.fetcher": "from django_graphile_worker.worker.executor import Executor",
                "worker.executor": "",
            },
        ),
        (
            parts_that_meet,
            {
                "worker": "",
                "worker.fetcher": "from django_graphile_worker.worker import executor",
                "worker.executor": "",
            },
        ),
        (
            parts_that_meet,
            {
                "worker": "",
                "worker.fetcher": "from . import executor",
                "worker.executor": "",
            },
        ),
        (sql_readers, {"client": "from django_graphile_worker.sql.loader import query"}),
        (
            sql_readers,
            {
                "client": "from django_graphile_worker.sql import loader",
                "sql": "",
                "sql.loader": "",
            },
        ),
        (sql_strings, {"client": "cursor.execute('select 1')"}),
        (sql_strings, {"client": "text = f'''\n  DELETE FROM {table}'''"}),
        (sql_strings, {"worker.listener": "run('listen \"jobs:insert\"')"}),
    ],
)
def test_a_breach_of_a_law_is_found(law: object, source: Sources) -> None:
    assert callable(law)
    assert law(source) != []


def test_no_module_is_longer_than_can_be_taken_in_at_once() -> None:
    long = {
        name: length
        for name, source in read_package().items()
        if (length := len(source.splitlines())) > LONGEST
    }
    assert long == {}


def test_every_module_opens_by_saying_what_it_is_for() -> None:
    bare = [
        name
        for name, source in read_package().items()
        if source.strip() and not ast.get_docstring(ast.parse(source))
    ]
    assert bare == []


def sql_files() -> list[Path]:
    return sorted((ROOT / "sql").rglob("*.sql"))


def queries() -> list[Path]:
    return sorted((ROOT / "sql" / "queries").glob("*.sql"))


def opening(path: Path) -> str:
    """Return the comment that a file opens with, in one line."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("--"):
            break
        lines.append(line[2:].strip())
    return " ".join(lines)


def test_the_sql_is_found() -> None:
    assert len(queries()) > 10
    assert len(sql_files()) > len(queries())


@pytest.mark.parametrize("path", sql_files(), ids=lambda path: path.name)
def test_an_sql_file_opens_with_a_sentence(path: Path) -> None:
    assert re.match(r"[A-Z][^.]+[.:;,]", opening(path))


@pytest.mark.parametrize("path", queries(), ids=lambda path: path.name)
def test_a_query_says_what_it_locks_and_what_it_returns(path: Path) -> None:
    assert re.search(r"\b(Locks|lasts)\b", opening(path))
    assert re.search(r"\bReturns\b", opening(path))


@pytest.mark.parametrize("path", sql_files(), ids=lambda path: path.name)
def test_sql_keywords_are_lower_case_and_lines_are_short(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    code = re.sub(r"--[^\n]*|'(?:[^']|'')*'|:SCHEMA\b", "", text)
    assert re.findall(r"\b[A-Z]{2,}\b", code) == []
    assert [line for line in text.splitlines() if len(line) > 110] == []
    assert "\t" not in text
    assert text.endswith("\n")


def test_every_query_file_is_used() -> None:
    sources = read_package()
    used = {
        node.value
        for module, source in sources.items()
        if READS_SQL.match(module)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert {path.stem for path in queries()} - used == set()
