"""The queue's tables as unmanaged models, to read and never to write.

Saving and deleting raise: a row may be locked by a worker, and its key and queue have rules that
only the SQL functions keep. Use `enqueue` and the operators' verbs of `django_graphile_worker`.

Every query goes to the first alias of `GRAPHILE_WORKER["DATABASES"]` unless `using()` names
another: a router that sends reads to a replica would show yesterday's queue.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from django_graphile_worker.fields import JSONTextField, TimestampField
from django_graphile_worker.readonly import QueueManager, ReadOnlyModel, ReadOnlyQuerySet
from django_graphile_worker.records import JobError as JobError
from django_graphile_worker.records import KeyConflict as KeyConflict
from django_graphile_worker.records import Overview as Overview
from django_graphile_worker.records import Statistic as Statistic
from django_graphile_worker.records import Worker as Worker
from django_graphile_worker.tables import db_table


class JobQuerySet(ReadOnlyQuerySet["Job"]):
    """Jobs by their state, judged by the database's clock."""

    def with_names(self) -> JobQuerySet:
        """Add `task_identifier` and `queue_name`, called so in upstream's view `jobs`, too.

        Not by a join: no foreign key keeps a task, and a job whose task is gone can be run by
        nobody and should be seen all the more.
        """
        task = Task.objects.using(self.db).filter(pk=models.OuterRef("task_id"))
        queue = JobQueue.objects.using(self.db).filter(pk=models.OuterRef("job_queue_id"))
        return self.annotate(
            task_identifier=models.Subquery(task.values("identifier")),
            queue_name=models.Subquery(queue.values("queue_name")),
        )

    def due(self) -> JobQuerySet:
        """Jobs that a worker could start now: available, and their `run_at` has come."""
        return self.filter(is_available=True, run_at__lte=Now())

    def locked(self) -> JobQuerySet:
        """Jobs that a worker holds."""
        return self.filter(is_available=False, locked_at__isnull=False)

    def failed(self) -> JobQuerySet:
        """Jobs that have failed permanently: no attempt is left, and nobody holds them."""
        return self.filter(
            is_available=False, locked_at__isnull=True, attempts__gte=models.F("max_attempts")
        )


JobManager = QueueManager.from_queryset(JobQuerySet)


class Task(ReadOnlyModel):
    """A task identifier that was once used; the row tells nothing of who can run it."""

    id = models.AutoField(primary_key=True)
    identifier = models.CharField(_("identifier"), max_length=128, unique=True)

    class Meta:
        managed = False
        db_table = db_table("_private_tasks")
        default_permissions = ("view",)
        verbose_name = _("task")
        verbose_name_plural = _("tasks")

    def __str__(self) -> str:
        return self.identifier


class JobQueue(ReadOnlyModel):
    """A named queue: a lane whose jobs run one at a time."""

    id = models.AutoField(primary_key=True)
    queue_name = models.CharField(_("queue name"), max_length=128, unique=True)
    locked_at = TimestampField(_("locked at"), null=True)
    locked_by = models.TextField(_("locked by"), null=True)  # noqa: DJ001 (upstream's column)
    is_available = models.BooleanField(_("is available"))

    class Meta:
        managed = False
        db_table = db_table("_private_job_queues")
        default_permissions = ("view",)
        verbose_name = _("named queue")
        verbose_name_plural = _("named queues")

    def __str__(self) -> str:
        return self.queue_name


class Job(ReadOnlyModel):
    """A job: one request to run a task. It is gone once it has succeeded."""

    id = models.BigAutoField(primary_key=True)
    job_queue = models.ForeignKey(
        JobQueue,
        models.DO_NOTHING,
        null=True,
        db_constraint=False,
        related_name="+",
        verbose_name=_("named queue"),
    )
    task = models.ForeignKey(
        Task,
        models.DO_NOTHING,
        db_constraint=False,
        related_name="+",
        verbose_name=_("task"),
    )
    payload = JSONTextField(_("payload"))
    priority = models.SmallIntegerField(_("priority"))
    run_at = TimestampField(_("run at"))
    attempts = models.SmallIntegerField(_("attempts"))
    max_attempts = models.SmallIntegerField(_("max attempts"))
    last_error = models.TextField(_("last error"), null=True)  # noqa: DJ001 (upstream's column)
    created_at = TimestampField(_("created at"))
    updated_at = TimestampField(_("updated at"))
    key = models.CharField(  # noqa: DJ001 (upstream's column)
        pgettext_lazy("job", "key"), max_length=512, null=True, unique=True
    )
    locked_at = TimestampField(_("locked at"), null=True)
    locked_by = models.TextField(_("locked by"), null=True)  # noqa: DJ001 (upstream's column)
    revision = models.IntegerField(_("revision"))
    flags = models.JSONField(_("flags"), null=True)
    is_available = models.BooleanField(_("is available"))

    objects: ClassVar[JobManager] = JobManager()  # type: ignore[type-arg]

    class Meta:
        managed = False
        db_table = db_table("_private_jobs")
        default_permissions = ("view",)
        permissions = [
            ("view_payload", "Can view the payload of jobs"),
            ("act_on_job", "Can run, reschedule, complete and fail jobs"),
            ("unlock_worker", "Can unlock what a worker holds"),
        ]
        verbose_name = _("job")
        verbose_name_plural = _("jobs")

    def __str__(self) -> str:
        return str(self.pk)


class LockedJob(Job):
    """A job that a worker holds; for a list, with a permission, of its own."""

    class Meta:
        proxy = True
        default_permissions = ("view",)
        verbose_name = _("locked job")
        verbose_name_plural = _("locked rows (jobs)")


class LockedQueue(JobQueue):
    """A named queue that a worker holds while it runs a job of it."""

    class Meta:
        proxy = True
        default_permissions = ("view",)
        verbose_name = _("locked named queue")
        verbose_name_plural = _("locked rows (named queues)")


class KnownCrontab(ReadOnlyModel):
    """A crontab item that some worker knows, and the last time it was enqueued for."""

    identifier = models.TextField(_("identifier"), primary_key=True)
    known_since = TimestampField(_("known since"))
    last_execution = TimestampField(_("last execution"), null=True)

    class Meta:
        managed = False
        db_table = db_table("_private_known_crontabs")
        default_permissions = ("view",)
        verbose_name = _("known crontab")
        verbose_name_plural = _("known crontabs")

    def __str__(self) -> str:
        return self.identifier
