"""What this package writes down itself, as unmanaged models; `models` has them, too.

They are read-only, as the queue's own tables are.
"""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from django_graphile_worker.fields import TimestampField
from django_graphile_worker.readonly import ReadOnlyModel
from django_graphile_worker.tables import db_table


class KeyConflict(ReadOnlyModel):
    """A superseding: a keyed job was added while the key's holder was not available.

    `superseded_state` is `"locked"` (it was running) or `"failed"` (no attempts left); the
    superseded columns tell how that job stood just before. `outcome` and `finished_at` are filled
    in when a worker of this package ends it, and stay null where another language's worker did.
    """

    id = models.BigAutoField(primary_key=True)
    recorded_at = TimestampField(_("recorded at"))
    key = models.TextField(pgettext_lazy("job", "key"))
    mode = models.TextField(_("job key mode"))
    superseded_job_id = models.BigIntegerField(_("superseded job"))
    superseded_task = models.TextField(_("superseded job's task"), null=True)  # noqa: DJ001
    superseded_state = models.TextField(_("superseded job's state"))
    superseded_attempts = models.SmallIntegerField(_("superseded job's attempts"))
    superseded_max_attempts = models.SmallIntegerField(_("superseded job's max attempts"))
    superseded_locked_by = models.TextField(_("locked by"), null=True)  # noqa: DJ001
    superseded_locked_at = TimestampField(_("locked at"), null=True)
    successor_job_id = models.BigIntegerField(_("successor job"))
    successor_task = models.TextField(_("successor job's task"), null=True)  # noqa: DJ001
    outcome = models.TextField(_("outcome"), null=True)  # noqa: DJ001
    finished_at = TimestampField(_("finished at"), null=True)

    class Meta:
        managed = False
        db_table = db_table("django_key_conflicts")
        default_permissions = ("view",)
        verbose_name = _("keyed-job conflict")
        verbose_name_plural = _("keyed-job conflicts")

    def __str__(self) -> str:
        return self.key


class Worker(ReadOnlyModel):
    """One start of a worker of this package, under the name that its locks carry.

    `last_beat_at` is its last sign of life. Once `dead_at` is set the name is void; the row goes
    some minutes later. A worker that ends by itself takes its row along.
    """

    worker_id = models.TextField(_("worker"), primary_key=True)
    host = models.TextField(_("host"))
    pid = models.IntegerField(_("process"))
    concurrency = models.IntegerField(_("concurrency"))
    started_at = TimestampField(_("started at"))
    last_beat_at = TimestampField(_("last sign of life at"))
    watching_since = TimestampField(_("heard without a gap since"))
    heartbeat = models.DurationField(_("heartbeat"))
    stale_after = models.DurationField(_("taken for dead after"))
    stopping_at = TimestampField(_("stopping since"), null=True)
    dead_at = TimestampField(_("declared dead at"), null=True)

    class Meta:
        managed = False
        db_table = db_table("django_workers")
        default_permissions = ("view",)
        verbose_name = _("worker")
        verbose_name_plural = _("workers")

    def __str__(self) -> str:
        return self.worker_id


class JobError(ReadOnlyModel):
    """An attempt at a job that has failed; the job may be gone since. The newest 100,000 are kept.

    Written by workers of this package: what a worker of another language fails is not here.
    """

    id = models.BigAutoField(primary_key=True)
    job_id = models.BigIntegerField(_("job"))
    task_identifier = models.TextField(_("task"))
    attempt = models.SmallIntegerField(_("attempt"))
    max_attempts = models.SmallIntegerField(_("max attempts"))
    error = models.TextField(_("error"))
    worker_id = models.TextField(_("worker"), null=True)  # noqa: DJ001
    locked_at = TimestampField(_("begun at"), null=True)
    failed_at = TimestampField(_("failed at"))

    class Meta:
        managed = False
        db_table = db_table("django_job_errors")
        default_permissions = ("view",)
        verbose_name = _("failed attempt")
        verbose_name_plural = _("failed attempts")

    def __str__(self) -> str:
        return f"{self.job_id} ({self.attempt})"


class Statistic(ReadOnlyModel):
    """What workers of this package have run of one task in one minute.

    `retried` counts failed attempts that are followed by another, `failed` those that were the
    last. The table's histograms of waiting and run times are not mapped: they are read added up,
    by `statements.statistics`.
    """

    id = models.BigAutoField(primary_key=True)
    minute = TimestampField(_("minute"))
    task_identifier = models.TextField(_("task"))
    succeeded = models.BigIntegerField(_("succeeded"))
    retried = models.BigIntegerField(_("failed, to be tried again"))
    failed = models.BigIntegerField(_("failed for good"))

    class Meta:
        managed = False
        db_table = db_table("django_statistics")
        default_permissions = ("view",)
        verbose_name = _("statistic")
        verbose_name_plural = _("statistics")

    def __str__(self) -> str:
        return f"{self.task_identifier} ({self.minute})"


class Overview(Statistic):
    """Stands for the page that shows the statistics, with a permission of its own."""

    class Meta:
        proxy = True
        default_permissions = ("view",)
        verbose_name = _("overview")
        verbose_name_plural = _("overview")
