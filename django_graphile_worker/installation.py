"""The queue's schema without `migrate`."""

from __future__ import annotations

from importlib import import_module, resources

from django.db import connections, router

from django_graphile_worker import transactions
from django_graphile_worker.conf import SETTING, get_config
from django_graphile_worker.exceptions import UnsupportedDatabase

APP = "graphile_worker"


def install_schema(*, using: str | None = None) -> None:
    """Install the queue's schema where no migrations are run, such as in a test database.

    With `pytest --nomigrations`, `TEST = {"MIGRATE": False}` or `MIGRATION_MODULES` Django makes
    tables from models, and none for those here, which are unmanaged. This does what `migrate
    graphile_worker` does in the database `using` (by default the first of
    `GRAPHILE_WORKER["DATABASES"]`), in one transaction, and records nothing in
    `django_migrations`. Where all is there it changes nothing, as `migrate` does afterwards.

    Raises `SchemaConflict` where something else stands in the schema, and `UnsupportedDatabase`
    for an alias that is not PostgreSQL through psycopg 3, that `DATABASES` does not name, or where
    a router forbids the app.
    """
    # Only here, or whoever enqueues would load all that migrations need.
    from django.db.migrations.state import ProjectState

    from django_graphile_worker.operations import InstallSchema

    alias = queue_alias(using)
    if not router.allow_migrate(alias, APP):
        raise UnsupportedDatabase(f"A router forbids the app {APP!r} in the database {alias!r}.")
    state = ProjectState()
    with connections[alias].schema_editor(atomic=True) as editor:
        for name in _migrations():
            for operation in import_module(name).Migration.operations:
                if isinstance(operation, InstallSchema):
                    operation.database_forwards(APP, editor, state, state)


def queue_alias(using: str | None) -> str:
    """Return the alias of a database that is to hold a queue; raises `UnsupportedDatabase`."""
    alias = transactions.alias(using)
    transactions.queue_connection(alias)
    if alias not in get_config().databases:
        raise UnsupportedDatabase(
            f'{SETTING}["DATABASES"] does not name {alias!r}: no queue is to be there.'
        )
    return alias


def _migrations() -> list[str]:
    """The modules with migrations, in order; by their files, since settings may hide them."""
    package = f"{__package__}.migrations"
    files = (entry.name for entry in resources.files(package).iterdir())
    stems = (name.removesuffix(".py") for name in files if name.endswith(".py"))
    return [f"{package}.{stem}" for stem in sorted(stems) if stem[0].isdigit()]
