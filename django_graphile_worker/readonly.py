"""What all models of the queue have in common: they are read, from the queue's own alias."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn, TypeVar

from django.db import models

from django_graphile_worker.conf import get_config

M = TypeVar("M", bound="ReadOnlyModel")


class ReadOnlyQuerySet(models.QuerySet[M]):
    """A queryset that cannot write. Each writing method raises `TypeError`."""

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(
            f"{self.model.__name__} is read-only; use the functions of django_graphile_worker."
        )

    create = update = delete = bulk_create = bulk_update = _refuse
    get_or_create = update_or_create = _raw_delete = _update = _refuse


class QueueManager(models.Manager[M]):
    def get_queryset(self) -> models.QuerySet[M]:
        alias = self._db
        row = self._hints.get("instance")  # type: ignore[attr-defined]
        if alias is None and isinstance(row, ReadOnlyModel):
            alias = row._state.db  # what belongs to a row is read where the row was
        return super().get_queryset().using(alias or get_config().databases[0])


class ReadOnlyModel(models.Model):
    """The base of all models here. Saving and deleting raise `TypeError`."""

    objects: ClassVar[models.Manager[Any]] = QueueManager.from_queryset(ReadOnlyQuerySet)()

    class Meta:
        abstract = True
        # The manager that follows `job.task`, too: else that would be left to the routers.
        base_manager_name = "objects"

    def save(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__} is read-only; use the functions of django_graphile_worker."
        )

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        self.save()
