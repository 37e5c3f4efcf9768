"""Every error this package raises, one line each."""

from __future__ import annotations

from django.core.exceptions import ImproperlyConfigured


class GraphileWorkerError(Exception):
    """The base of all errors of this package."""


class InvalidJob(GraphileWorkerError, ValueError):
    """A value for a job is out of bounds; raised before any SQL is sent."""


class InvalidJobType(InvalidJob, TypeError):
    """A value for a job has the wrong type; raised before any SQL is sent."""


class InvalidTask(GraphileWorkerError, ValueError):
    """A function cannot be registered as a task."""


class TaskAlreadyRegistered(InvalidTask):
    """Two different functions claim the same task identifier."""


class InvalidSetting(GraphileWorkerError, ImproperlyConfigured):
    """`settings.GRAPHILE_WORKER` holds an unknown name or a value out of bounds."""


class UnsupportedDatabase(GraphileWorkerError, ImproperlyConfigured):
    """The database alias is not PostgreSQL through psycopg 3."""


class JobNotStored(GraphileWorkerError):
    """The database took a request and stored nothing: its functions are not this package's."""


class SchemaConflict(GraphileWorkerError):
    """The database holds a schema that a migration must not touch."""


class SqlFileError(GraphileWorkerError):
    """An SQL file of this package is missing, or holds an unknown token."""
