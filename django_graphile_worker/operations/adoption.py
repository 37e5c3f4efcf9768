"""A schema that another installer has made: Graphile Worker for Node, or its Rust crate."""

from __future__ import annotations

import time
from typing import NamedTuple

from django_graphile_worker.exceptions import SchemaConflict
from django_graphile_worker.operations import published
from django_graphile_worker.operations.editing import Editing, Found
from django_graphile_worker.sql import loader

OLDEST = 18
BREAKING = 19
NEWEST = 20
"""The revisions that this package knows; 19 is only Node's mark, and 20 is function bodies."""

PATIENCE = 30.0
STANDSTILL = 3.0
"""Seconds: how long an installer is waited for; how long after its last revision it is through."""

PAUSE = 0.1


class Revisions(NamedTuple):
    """What Graphile Worker has recorded."""

    highest: int | None
    breaking: int | None
    """The highest one that older workers must not meet."""
    marked: bool
    """Whether 19 is such a one. Only Node's is."""
    age: float | None
    """Seconds since the newest was recorded."""


def adopt(editing: Editing, found: Found) -> None:
    """Make a schema of another installer ours, too, with all its jobs.

    Raises `SchemaConflict` where it is too old, too new, of another kind, or not ours to change;
    nothing has been changed then.
    """
    revisions = Revisions(None, None, False, None)
    if found.revision is not None:
        found, revisions = _await(editing, found)
    _refuse(editing, found, revisions)
    _preflight(editing)
    with editing.acting_as_owner():
        for path in loader.files("schema/0001"):
            if path.rsplit("/", 1)[1].startswith("3") and "view" not in path:
                editing.apply(path)
        published.put_in(editing, editing.run(published.statement()))
        if revisions.highest == BREAKING and revisions.marked:
            editing.query("schema/adopted/record_revisions.sql")


def leave(editing: Editing) -> None:
    """Put another installer's schema back to how it was, but for what was done with its jobs."""
    published.restore(editing)
    editing.apply("schema/drop_additions.sql")


def read_revisions(editing: Editing) -> Revisions:
    return Revisions(*editing.query("schema/adopted/read_revisions.sql")[0])


def _await(editing: Editing, found: Found) -> tuple[Found, Revisions]:
    """Let an installer that is at work come to its end.

    It records one revision after the other, each in a transaction of its own. Each look here is a
    statement, which sees what has been committed by then.
    """
    begun = time.monotonic()
    while True:
        revisions = read_revisions(editing)
        waited = time.monotonic() - begun
        at_work = (waited if revisions.age is None else revisions.age) < STANDSTILL
        finished = (found.revision or 0) >= NEWEST
        if finished or not at_work or waited > PATIENCE:
            return found, revisions
        time.sleep(PAUSE)
        found = editing.look()


def _refuse(editing: Editing, found: Found, revisions: Revisions) -> None:
    where = f"The schema {editing.schema!r} in database {editing.alias!r}"
    if not found.revision:
        raise SchemaConflict(
            f"{where} holds {found.objects} objects of another origin; nothing was changed. Set"
            f" GRAPHILE_WORKER['SCHEMA'] to another name, or move them elsewhere."
        )
    if found.revision < OLDEST:
        raise SchemaConflict(
            f"{where} is at Graphile Worker's revision {found.revision}; nothing was changed."
            f" It can be adopted from revision {OLDEST} on: let graphile-worker 0.16.6 or newer"
            f" migrate it (graphile-worker --schema-only), then migrate again."
        )
    if revisions.breaking is not None and revisions.breaking > NEWEST:
        raise SchemaConflict(
            f"{where} is at Graphile Worker's revision {found.revision}, and {revisions.breaking}"
            f" is one that older workers must not meet; nothing was changed. This version knows"
            f" revisions up to {NEWEST}: upgrade django_graphile_worker, then migrate again."
        )


def _preflight(editing: Editing) -> None:
    where = f"The schema {editing.schema!r} in database {editing.alias!r}"
    ((owner, may_act, may_create, others),) = editing.query(
        "schema/adopted/preflight.sql", {"schema": editing.schema, "names": published.NAMES}
    )
    if owner is None:
        raise SchemaConflict(f"{where} has no table _private_jobs; nothing was changed.")
    if not may_act:
        raise SchemaConflict(
            f"{where} belongs to the role {owner!r}, and the role that migrates is not a member of"
            f" it; nothing was changed. Migrate as {owner!r}, or grant that role to this one."
        )
    if not may_create:
        raise SchemaConflict(
            f"The role {owner!r} may not create objects in the schema {editing.schema!r} of"
            f" database {editing.alias!r}; nothing was changed. Grant it CREATE on the schema."
        )
    if others:
        raise SchemaConflict(
            f"{where} belongs to the role {owner!r}, but not all of it: {', '.join(others)};"
            f" nothing was changed. Give these to {owner!r}."
        )
