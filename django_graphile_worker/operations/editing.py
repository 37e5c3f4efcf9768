"""The files of `sql/schema/`, run through a schema editor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from django_graphile_worker.conf import get_config
from django_graphile_worker.exceptions import SchemaConflict
from django_graphile_worker.sql import loader
from django_graphile_worker.statements.base import Statement

T = TypeVar("T")


class Found(NamedTuple):
    """What stands in the database where the schema is to be."""

    exists: bool
    objects: int
    """Relations, functions and types in the schema."""
    revision: int | None
    """Graphile Worker's highest recorded revision, 0 for none; `None` without its table."""
    functions_version: int | None
    """Ours, if this package made or adopted the schema."""
    origin: str | None
    """`"installed"` or `"adopted"`, likewise."""
    schema_created: bool
    """Whether our migration made the schema itself, and not only what is in it."""

    @property
    def adopted(self) -> bool:
        return self.origin == "adopted"


NOTHING = Found(False, 0, None, None, None, False)


class Editing:
    """Runs SQL files in the transaction of a schema editor."""

    def __init__(self, editor: BaseDatabaseSchemaEditor) -> None:
        self.editor = editor
        self.schema = get_config().schema
        self.alias = editor.connection.alias
        self.collecting = bool(editor.collect_sql)
        """Whether this is `sqlmigrate`: everything is shown, nothing asked."""

    def apply(self, path: str, parameters: list[Any] | None = None) -> None:
        # By the schema editor, so that what sqlmigrate prints leaves the same as what migrate does.
        text = self.text(path, parameters=parameters is not None)
        self.editor.execute(text, params=parameters)

    def execute(self, statement: str) -> None:
        """Run a statement that the database has made."""
        self.editor.execute(statement, params=None)

    def query(
        self, path: str, parameters: Mapping[str, Any] | None = None
    ) -> list[tuple[Any, ...]]:
        with self.editor.connection.cursor() as cursor:
            cursor.execute(self.text(path, parameters=parameters is not None), parameters)
            return list(cursor.fetchall()) if cursor.description else []

    def run(self, statement: Statement[T]) -> T:
        with self.editor.connection.cursor() as cursor:
            return statement.run(cursor)

    def text(self, path: str, *, parameters: bool = False) -> str:
        return loader.render(loader.load(path), self.schema, parameters=parameters)

    def lock(self) -> None:
        """Let one migration of this schema run at a time, until the transaction ends.

        Whoever had to wait looks at what the one before has done. Where the database makes every
        transaction serializable it would look at what there was when it began to wait; so this asks
        for READ COMMITTED, which it can as long as the transaction is only just begun.
        """
        ((isolation,),) = self.query("schema/show_isolation.sql")
        if isolation != "read committed" and not self.editor.connection.savepoint_ids:
            self.query("schema/read_committed.sql")
        self.query("schema/lock_installation.sql", {"schema": self.schema})

    def look(self) -> Found:
        # What there is to read in the schema itself may be missing: these are statements apart.
        ((exists, objects, has_migrations, has_installation),) = self.query(
            "schema/inspect.sql", {"schema": self.schema}
        )
        revision, version, origin, created = None, None, None, False
        if has_migrations:
            ((revision,),) = self.query("schema/read_revision.sql")
            revision = revision or 0
        if has_installation:
            for row in self.query("schema/read_installation.sql"):
                version, origin, created = row
        return Found(exists, objects, revision, version, origin, created)

    @contextmanager
    def acting_as_owner(self) -> Iterator[None]:
        """Make what is made here belong to whoever owns the table of jobs.

        Our helper functions run as their owner, and row security shows that table to no other.
        Raises `SchemaConflict` where the role that we act as is no member of that owner.
        """
        ((owner, may_act, *_),) = self.query(
            "schema/adopted/preflight.sql", {"schema": self.schema, "names": []}
        )
        if not may_act:
            raise SchemaConflict(
                f"The schema {self.schema!r} in database {self.alias!r} belongs to the role"
                f" {owner!r}, and the role that is to change it is not a member of that;"
                f" nothing was changed."
            )
        ((before, _),) = self.query("schema/adopted/act_as.sql", {"role": owner})
        yield
        self.query("schema/adopted/act_as.sql", {"role": before})
