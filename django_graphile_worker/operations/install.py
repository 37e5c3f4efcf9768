"""Migration operations that apply the `.sql` files of `sql/schema/`.

They run on the schema editor's own connection, and only on the aliases that hold a queue
(`GRAPHILE_WORKER["DATABASES"]`); on any other alias they do nothing.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from django.db import DatabaseError, router, transaction
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations import RunSQL
from django.db.migrations.state import ProjectState

from django_graphile_worker.conf import get_config
from django_graphile_worker.exceptions import SchemaConflict, UnsupportedDatabase
from django_graphile_worker.operations import adoption, published
from django_graphile_worker.operations.editing import NOTHING, Editing, Found
from django_graphile_worker.sql import loader
from django_graphile_worker.tables import db_table

FUNCTIONS_VERSION = 1
"""The version of our SQL functions; written into `django_installation`."""

# What PostgreSQL says to the second of two that make the same schema, or the same table in it.
MADE_MEANWHILE = {"42P06", "42P07", "23505", "42710"}


class InstallSchema(RunSQL):
    """Install the queue's schema from `sql/schema/<folder>`, or take it down again.

    Forwards: an absent or empty schema is filled. One of Graphile Worker, from revision 18 on, is
    adopted with all its jobs. One that this package has filled or adopted is left as it is, but for
    functions of ours that another installer has replaced since: those are put back. Any other is
    refused with `SchemaConflict`, and nothing is changed. Concurrent runs wait for each other (a
    transaction-level advisory lock) and the later ones find the work done; another installer that
    is at work is waited for.

    Backwards: an adopted schema gets the functions back that it had, and keeps all else; one of
    ours goes, which is refused with `SchemaConflict` while it holds jobs. Nothing of anybody else
    that depends on ours, or stands in the schema, is dropped: it stops this with PostgreSQL's own
    error. Only what is part of a table of ours (an index, a trigger, a policy) goes with the table.

    Raises `UnsupportedDatabase` where the alias is not PostgreSQL through psycopg 3.
    """

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
            self._install(Editing(schema_editor))

    def database_backwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        if not self._holds_queue(app_label, schema_editor):
            return
        editing = Editing(schema_editor)
        found = NOTHING
        if not editing.collecting:
            editing.lock()
            found = editing.look()
            if found.functions_version is None:
                return
        self._uninstall(editing, found)

    def _uninstall(self, editing: Editing, found: Found) -> None:
        if found.adopted:
            with editing.acting_as_owner():
                adoption.leave(editing)
            return
        if not editing.collecting:
            self._refuse_with_jobs(editing)
        editing.apply("schema/drop_additions.sql")
        editing.apply(f"schema/{self.folder}/down.sql")
        if editing.collecting or found.schema_created:
            editing.apply("schema/drop_schema.sql")

    def _install(self, editing: Editing) -> None:
        found = NOTHING
        if not editing.collecting:
            editing.lock()
            found = editing.look()
        if found.functions_version is not None:
            published.mend(editing)
            return
        if not found.objects:
            if self._fill(editing, found):
                return
            found = editing.look()
        adoption.adopt(editing, found)
        self._record(editing, "adopted", schema_created=False)

    def _fill(self, editing: Editing, found: Found) -> bool:
        """Make everything, and return whether that went: another may be making the same."""
        try:
            with self._undone_on_error(editing):
                for path in loader.files(f"schema/{self.folder}"):
                    if not (found.exists and path.endswith("/00_schema.sql")):
                        editing.apply(path)
        except DatabaseError as error:
            if getattr(error.__cause__, "sqlstate", None) in MADE_MEANWHILE:
                return False
            raise
        self._record(editing, "installed", schema_created=not found.exists)
        return True

    def _undone_on_error(self, editing: Editing) -> AbstractContextManager[Any]:
        return nullcontext() if editing.collecting else transaction.atomic(using=editing.alias)

    def _record(self, editing: Editing, origin: str, *, schema_created: bool) -> None:
        editing.apply("schema/record_installation.sql", [FUNCTIONS_VERSION, origin, schema_created])

    def _refuse_with_jobs(self, editing: Editing) -> None:
        # Whoever adds a job now waits, and then finds the table gone: no job slips through.
        editing.query("schema/lock_jobs.sql")
        ((jobs,),) = editing.query("schema/count_jobs.sql")
        if jobs:
            raise SchemaConflict(
                f"The schema {editing.schema!r} in database {editing.alias!r} holds {jobs}"
                f" job{'s' if jobs > 1 else ''}; nothing was changed. Let a worker run them or, to"
                f" lose them, delete every row of {db_table('_private_jobs')}; then migrate again."
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


class ExtendSchema(InstallSchema):
    """Add to the queue's schema what stands in `sql/schema/<folder>`; what is there stays.

    Backwards: refused with `SchemaConflict` while the schema holds jobs, as the migrations before
    it will be: otherwise the way to zero would end halfway.
    """

    def describe(self) -> str:
        return f"Extend Graphile Worker's schema by sql/schema/{self.folder}"

    def _install(self, editing: Editing) -> None:
        found = NOTHING
        if not editing.collecting:
            editing.lock()
            found = editing.look()
        with editing.acting_as_owner() if found.adopted else nullcontext():
            for path in loader.files(f"schema/{self.folder}"):
                editing.apply(path)

    def _uninstall(self, editing: Editing, found: Found) -> None:
        if not (found.adopted or editing.collecting):
            self._refuse_with_jobs(editing)
        with editing.acting_as_owner() if found.adopted else nullcontext():
            editing.apply(f"schema/{self.folder}/down.sql")
