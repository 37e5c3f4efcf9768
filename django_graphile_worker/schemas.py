"""How the queue's schema stands in a database, and what mends it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django.db import DatabaseError, connections

from django_graphile_worker.exceptions import SchemaConflict
from django_graphile_worker.installation import queue_alias
from django_graphile_worker.operations import adoption, published
from django_graphile_worker.operations.editing import Editing, Found
from django_graphile_worker.operations.published import Published

logger = logging.getLogger("graphile_worker")

# PostgreSQL's insufficient_privilege.
NOT_PERMITTED = "42501"

# How many owners of jobs a message names.
SHOWN = 5


@dataclass(frozen=True, slots=True)
class SchemaState:
    """How the queue's schema stands in one database."""

    alias: str
    schema: str
    origin: str | None
    """`"installed"` or `"adopted"` by this package; `None` where it has done neither."""
    revision: int | None
    """Graphile Worker's highest recorded revision."""
    functions: tuple[Published, ...]
    """The seven that programs of every language call, by name."""

    @property
    def is_well(self) -> bool:
        """Whether the schema is ours, and each of the seven as well."""
        return self.origin is not None and not published.replaced(self.functions)


def read_schema(*, using: str | None = None) -> SchemaState:
    """Return how the schema stands in the database `using`, by default the queue's first.

    Raises `UnsupportedDatabase` as `install_schema` does.
    """
    with _editing(using) as editing:
        found = editing.look()
        functions = editing.run(published.statement())
        return SchemaState(
            editing.alias, editing.schema, found.origin, found.revision, tuple(functions)
        )


def repair_schema(*, using: str | None = None) -> list[str]:
    """Put our functions back where another installer has replaced them; return their names.

    Owner, grants and what the owner has set on a function stay. Raises `SchemaConflict` where this
    package has neither installed nor adopted the schema, and `UnsupportedDatabase` as
    `install_schema` does.
    """
    with _editing(using) as editing:
        _find_ours(editing)
        return published.mend(editing)


def raise_schema(*, using: str | None = None, force: bool = False) -> tuple[int, int]:
    """Lift an adopted schema from Graphile Worker's revision 18 to 20; return both numbers.

    Workers of 0.16 refuse a schema of revision 20, so this raises `SchemaConflict` while there are
    signs of one, but with `force`: a session that listens as Node's workers do, in whichever schema
    of the database, or a job that is held by none of our workers. Workers that run are told.
    Nothing happens where the revision is 20 already. Where 19 is not Node's, `SchemaConflict` is
    raised in any case. Raises as `repair_schema` does.
    """
    with _editing(using) as editing:
        found = _find_ours(editing)
        before = found.revision or 0
        if before >= adoption.NEWEST:
            return before, before
        if before >= adoption.BREAKING and not adoption.read_revisions(editing).marked:
            raise SchemaConflict(
                f"The schema {editing.schema!r} in database {editing.alias!r} is at a revision"
                f" {before} that Graphile Worker for Node has not made; nothing was changed."
            )
        # As whom we are, who may see more of other sessions than the owner of the jobs.
        ((listening,),) = editing.query("schema/adopted/find_listeners.sql")
        with editing.acting_as_owner():
            owners = [owner for (owner,) in editing.query("schema/adopted/find_owners.sql")]
            if before < adoption.BREAKING and not force:
                _refuse_beside_others(editing, listening, owners)
            editing.query("schema/adopted/record_revisions.sql")
        return before, adoption.NEWEST


def _refuse_beside_others(editing: Editing, listening: int, owners: list[str]) -> None:
    signs = []
    if listening:
        signs.append(f"sessions that listen as Node's workers do: {listening}")
    if owners:
        named = ", ".join(owners[:SHOWN]) + (", ..." if len(owners) > SHOWN else "")
        signs.append(f"owners of locked jobs that are none of our workers: {named}")
    if signs:
        raise SchemaConflict(
            f"Workers of another kind seem to be at work in database {editing.alias!r}"
            f" ({'; '.join(signs)}); nothing was changed. At revision 18 they may be of"
            f" graphile-worker 0.16, which refuses a newer one. Stop them, then raise again; or"
            f" insist with --force."
        )


def _find_ours(editing: Editing) -> Found:
    editing.lock()
    found = editing.look()
    if found.functions_version is None:
        raise SchemaConflict(
            f"This package has not installed the schema {editing.schema!r} in database"
            f" {editing.alias!r}: migrate graphile_worker first."
        )
    return found


@contextmanager
def _editing(using: str | None) -> Iterator[Editing]:
    with connections[queue_alias(using)].schema_editor(atomic=True) as editor:
        yield Editing(editor)


def mend_after_migrate(using: str) -> None:
    """Do what `repair_schema` does where there is a schema of ours; say nothing where not.

    A role that may not look, or not mend, is only warned: it may have migrated another app.
    """
    try:
        state = read_schema(using=using)
        if state.origin is not None and not state.is_well:
            repair_schema(using=using)
    except (SchemaConflict, DatabaseError) as error:
        forbidden = getattr(error.__cause__, "sqlstate", None) == NOT_PERMITTED
        if not (forbidden or isinstance(error, SchemaConflict)):
            raise
        logger.warning(
            "Whether another installer has replaced functions of this package in database %r could "
            "not be seen to: %s",
            using,
            str(error).strip(),
        )
