"""The seven functions that programs of every language call, and whether they are ours."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import DatabaseError, transaction

from django_graphile_worker.conf import get_config
from django_graphile_worker.operations.editing import Editing
from django_graphile_worker.sql import loader
from django_graphile_worker.statements.base import Statement

# The types of the arguments, which are part of the contract; `*` stands for the schema's type.
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "add_job": (
        *("text", "json", "text", "timestamp with time zone", "integer", "text", "integer"),
        *("text[]", "text"),
    ),
    "add_jobs": ("*", "boolean"),
    "complete_jobs": ("bigint[]",),
    "force_unlock_workers": ("text[]",),
    "permanently_fail_jobs": ("bigint[]", "text"),
    "remove_job": ("text",),
    "reschedule_jobs": (
        *("bigint[]", "timestamp with time zone", "integer", "integer", "integer"),
    ),
}
NAMES = sorted(ARGUMENTS)

FOLDER = "schema/0001"
LOOK = "schema/adopted/look_at_functions.sql"

_FILE = re.compile(r"/4\d_(\w+)\.sql\Z")
_BODY = re.compile(r"\$\$(.*)\$\$", re.DOTALL)
_CLAUSE = re.compile(r" (SET .*|SECURITY DEFINER)")

OURS, REPLACED, MISSING, CHANGED = "ours", "replaced", "missing", "changed"


@dataclass(frozen=True, slots=True)
class Published:
    """One of the seven as it stands."""

    name: str
    state: str
    """`"ours"`, `"replaced"` (another's), `"changed"` (with other arguments) or `"missing"`."""
    definition: str | None = None

    @property
    def replaceable(self) -> bool:
        return self.state in (REPLACED, MISSING)

    @property
    def clauses(self) -> list[str]:
        """What its owner has set on it, as `alter function` takes it."""
        head = (self.definition or "").partition("\nAS ")[0]
        return [match[1] for line in head.splitlines() if (match := _CLAUSE.fullmatch(line))]


def files() -> dict[str, str]:
    """The file that makes each function of ours, by the function's name."""
    found = ((_FILE.search(path), path) for path in loader.files(FOLDER))
    return {match[1]: path for match, path in found if match}


def bodies() -> dict[str, str]:
    """The body of each function of ours, as the database stores it."""
    schema = get_config().schema
    bodies = {}
    for name, path in files().items():
        match = _BODY.search(loader.render(loader.load(path), schema))
        assert match is not None, path
        bodies[name] = match[1]
    return bodies


def statement() -> Statement[Sequence[Published]]:
    """How each of the seven stands, by name. The text decides, not a comment in it."""
    schema = get_config().schema
    return Statement(
        "look_at_functions",
        loader.render(loader.load(LOOK), schema, parameters=True),
        {"schema": schema, "names": NAMES},
        lambda rows: list(_judge(rows)),
    )


def replaced(functions: Iterable[Published]) -> str:
    """Name those that are not ours, for a message; empty where all are."""
    return ", ".join(
        f"{function.name} ({function.state})" for function in functions if function.state != OURS
    )


def _judge(rows: Sequence[Sequence[Any]]) -> Iterator[Published]:
    ours = bodies()
    for name in NAMES:
        found = [row for row in rows if row[0] == name]
        same = [row for row in found if _is_called_alike(name, row[1])]
        if not found:
            yield Published(name, MISSING)
        elif not same or len(found) > 1:
            yield Published(name, CHANGED, found[0][3])
        elif same[0][2] == ours[name]:
            yield Published(name, OURS, same[0][3])
        else:
            yield Published(name, REPLACED, same[0][3])


def _is_called_alike(name: str, types: Sequence[str]) -> bool:
    expected = ARGUMENTS[name]
    return len(types) == len(expected) and all(
        one == "*" or one == other for one, other in zip(expected, types, strict=True)
    )


def put_in(editing: Editing, before: Sequence[Published]) -> list[str]:
    """Put ours where another's of the same arguments stands, or none; return their names.

    `before` is how they stand, as `statement` tells.

    What stood there is kept in `django_replaced_functions`; owner, grants and what the owner has
    set on a function stay. One that is called in another way, or returns something else, stays as
    it is.
    """
    names = []
    for function in before:
        if not function.replaceable:
            continue
        try:
            with transaction.atomic(using=editing.alias):
                if function.definition is not None:
                    editing.query(
                        "schema/adopted/save_function.sql",
                        {"name": function.name, "definition": function.definition},
                    )
                editing.apply(files()[function.name])
                _keep_clauses(editing, function)
        except DatabaseError as error:
            # PostgreSQL's word for what CREATE OR REPLACE cannot change: names, defaults, result.
            if getattr(error.__cause__, "sqlstate", None) != "42P13":
                raise
        else:
            names.append(function.name)
    return names


def _keep_clauses(editing: Editing, function: Published) -> None:
    parameters = {
        "schema": editing.schema,
        "name": function.name,
        "clauses": function.clauses,
    }
    for (statement,) in editing.query("schema/adopted/keep_clauses.sql", parameters):
        editing.execute(statement)


def mend(editing: Editing) -> list[str]:
    """Put ours back where another installer has replaced them; return their names."""
    before = editing.run(statement())
    if not any(function.replaceable for function in before):
        return []
    with editing.acting_as_owner():
        return put_in(editing, before)


def restore(editing: Editing) -> None:
    """Put back what ours stand in for. Where ours has been replaced since, that stays."""
    kept = dict(editing.query("schema/adopted/read_replaced.sql"))
    for function in editing.run(statement()):
        if function.state == OURS and function.name in kept:
            editing.execute(kept[function.name])
