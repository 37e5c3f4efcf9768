"""Migration operations that apply the `.sql` files of `sql/schema/`.

They run on the schema editor's own connection, and only on the aliases that hold a queue
(`GRAPHILE_WORKER["DATABASES"]`); on any other alias they do nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from django.db import router
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations import RunSQL
from django.db.migrations.state import ProjectState

from django_graphile_worker.conf import get_config
from django_graphile_worker.exceptions import SchemaConflict, UnsupportedDatabase
from django_graphile_worker.sql import loader
from django_graphile_worker.tables import db_table

FUNCTIONS_VERSION = 1
"""The version of our SQL functions; written into `django_installation`."""


class Found(NamedTuple):
    """What stands in the database where the schema is to be."""

    exists: bool
    objects: int
    """Relations, functions and types in the schema."""
    revision: int | None
    """Graphile Worker's highest recorded revision, if there is a `migrations` table."""
    functions_version: int | None
    """Ours, if this package made or adopted the schema."""
    schema_created: bool
    """Whether our migration made the schema itself, and not only what is in it."""


class InstallSchema(RunSQL):
    """Install the queue's schema from `sql/schema/<folder>`, or take it down again.

    Forwards: an absent or empty schema is filled; one that this package filled before is left as
    it is; any other is refused with `SchemaConflict` and nothing is changed. Concurrent runs wait
    for each other (a transaction-level advisory lock) and the later ones find the work done.

    Backwards: refused with `SchemaConflict` while the schema holds jobs. Nothing of anybody else
    that depends on ours, or stands in the schema, is dropped: it stops this with PostgreSQL's own
    error. Only what is part of a table of ours (an index, a trigger, a policy) goes with the table.

    Raises `UnsupportedDatabase` where the alias is not PostgreSQL through psycopg 3.
    """

    # Whether going back takes the schema itself down, where it was made here.
    makes_schema = True

    def __init__(self, folder: str) -> None:
        super().__init__(sql=RunSQL.noop, reverse_sql=RunSQL.noop)
        self.folder = folder

    def deconstruct(self) -> tuple[str, list[Any], dict[str, Any]]:
        return type(self).__qualname__, [self.folder], {}

    def describe(self) -> str:
        return f"Install Graphile Worker's schema from sql/schema/{self.folder}"

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        if self._holds_queue(app_label, schema_editor):
            self._install(schema_editor)

    def database_backwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        if not self._holds_queue(app_label, schema_editor):
            return
        found = None
        if not schema_editor.collect_sql:
            self._lock(schema_editor)
            found = self._look(schema_editor)
            if found.functions_version is None:
                return
            self._refuse_with_jobs(schema_editor)
        self._apply(schema_editor, f"schema/{self.folder}/down.sql")
        if self.makes_schema and (found is None or found.schema_created):
            self._apply(schema_editor, "schema/drop_schema.sql")

    def _install(self, schema_editor: BaseDatabaseSchemaEditor) -> None:
        if schema_editor.collect_sql:  # sqlmigrate: show everything, ask nothing
            found = Found(False, 0, None, None, False)
        else:
            self._lock(schema_editor)
            found = self._look(schema_editor)
        if found.functions_version is not None:
            return
        if found.objects:
            raise SchemaConflict(self._refusal(schema_editor, found))

        for path in loader.files(f"schema/{self.folder}"):
            if found.exists and path.endswith("/00_schema.sql"):
                continue
            self._apply(schema_editor, path)
        # By the schema editor, so that what sqlmigrate prints leaves the same as what migrate does.
        schema_editor.execute(
            self._text("schema/record_installation.sql", parameters=True),
            [FUNCTIONS_VERSION, not found.exists],
        )

    def _refuse_with_jobs(self, schema_editor: BaseDatabaseSchemaEditor) -> None:
        with schema_editor.connection.cursor() as cursor:
            # Whoever adds a job now waits, and then finds the table gone: no job slips through.
            cursor.execute(self._text("schema/lock_jobs.sql"))
            cursor.execute(self._text("schema/count_jobs.sql"))
            (jobs,) = cursor.fetchone()
        if jobs:
            raise SchemaConflict(
                f"The schema {get_config().schema!r} in database"
                f" {schema_editor.connection.alias!r} holds {jobs} job{'s' if jobs > 1 else ''};"
                f" nothing was changed. Let a worker run them or, to lose them, delete every row of"
                f" {db_table('_private_jobs')}; then migrate again."
            )

    def _holds_queue(self, app_label: str, schema_editor: BaseDatabaseSchemaEditor) -> bool:
        connection = schema_editor.connection
        if connection.alias not in get_config().databases:
            return False
        if not router.allow_migrate(connection.alias, app_label, **self.hints):
            return False
        if connection.vendor != "postgresql" or not self._through_psycopg3():
            raise UnsupportedDatabase(
                f"GRAPHILE_WORKER['DATABASES'] names {connection.alias!r}, which is not a"
                f" PostgreSQL database used through psycopg 3."
            )
        return True

    def _through_psycopg3(self) -> bool:
        # Only here: without a driver for PostgreSQL this import fails.
        from django.db.backends.postgresql import psycopg_any

        return bool(psycopg_any.is_psycopg3)

    def _lock(self, schema_editor: BaseDatabaseSchemaEditor) -> None:
        with schema_editor.connection.cursor() as cursor:
            cursor.execute(
                self._text("schema/lock_installation.sql", parameters=True),
                {"schema": get_config().schema},
            )

    def _look(self, schema_editor: BaseDatabaseSchemaEditor) -> Found:
        with schema_editor.connection.cursor() as cursor:
            cursor.execute(
                self._text("schema/inspect.sql", parameters=True), {"schema": get_config().schema}
            )
            exists, objects, has_migrations, has_installation = cursor.fetchone()
            revision, version, created = None, None, False
            if has_migrations:
                cursor.execute(self._text("schema/read_revision.sql"))
                (revision,) = cursor.fetchone()
            if has_installation:
                cursor.execute(self._text("schema/read_installation.sql"))
                version, created = cursor.fetchone() or (None, False)
        return Found(exists, objects, revision, version, created)

    def _refusal(self, schema_editor: BaseDatabaseSchemaEditor, found: Found) -> str:
        what = (
            f"Graphile Worker's revision {found.revision}"
            if found.revision is not None
            else f"{found.objects} objects of another origin"
        )
        return (
            f"The schema {get_config().schema!r} in database {schema_editor.connection.alias!r}"
            f" holds {what}; nothing was changed. This version cannot adopt a schema that it did"
            f" not make: set GRAPHILE_WORKER['SCHEMA'] to another name."
        )

    def _apply(self, schema_editor: BaseDatabaseSchemaEditor, path: str) -> None:
        schema_editor.execute(self._text(path), params=None)

    def _text(self, path: str, *, parameters: bool = False) -> str:
        return loader.render(loader.load(path), get_config().schema, parameters=parameters)


class ExtendSchema(InstallSchema):
    """Add to the queue's schema what stands in `sql/schema/<folder>`; what is there stays.

    Backwards: refused with `SchemaConflict` while the schema holds jobs, as the migrations before
    it will be: otherwise the way to zero would end halfway.
    """

    makes_schema = False

    def describe(self) -> str:
        return f"Extend Graphile Worker's schema by sql/schema/{self.folder}"

    def _install(self, schema_editor: BaseDatabaseSchemaEditor) -> None:
        if not schema_editor.collect_sql:
            self._lock(schema_editor)
        for path in loader.files(f"schema/{self.folder}"):
            self._apply(schema_editor, path)
