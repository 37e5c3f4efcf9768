"""Add what makes a dead worker's jobs run again, and what leads a fetch past a long line."""

from __future__ import annotations

from django.db import migrations, models

from django_graphile_worker.fields import TimestampField
from django_graphile_worker.operations import ExtendSchema
from django_graphile_worker.tables import db_table


class Migration(migrations.Migration):
    dependencies = [("graphile_worker", "0001_initial")]

    operations = [
        ExtendSchema("0002"),
        migrations.CreateModel(
            name="JobError",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("job_id", models.BigIntegerField(verbose_name="job")),
                ("task_identifier", models.TextField(verbose_name="task")),
                ("attempt", models.SmallIntegerField(verbose_name="attempt")),
                ("max_attempts", models.SmallIntegerField(verbose_name="max attempts")),
                ("error", models.TextField(verbose_name="error")),
                ("worker_id", models.TextField(null=True, verbose_name="worker")),
                ("locked_at", TimestampField(null=True, verbose_name="begun at")),
                ("failed_at", TimestampField(verbose_name="failed at")),
            ],
            options={
                "verbose_name": "failed attempt",
                "verbose_name_plural": "failed attempts",
                "db_table": db_table("django_job_errors"),
                "managed": False,
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="Worker",
            fields=[
                (
                    "worker_id",
                    models.TextField(primary_key=True, serialize=False, verbose_name="worker"),
                ),
                ("host", models.TextField(verbose_name="host")),
                ("pid", models.IntegerField(verbose_name="process")),
                ("concurrency", models.IntegerField(verbose_name="concurrency")),
                ("started_at", TimestampField(verbose_name="started at")),
                ("last_beat_at", TimestampField(verbose_name="last sign of life at")),
                ("watching_since", TimestampField(verbose_name="heard without a gap since")),
                ("heartbeat", models.DurationField(verbose_name="heartbeat")),
                ("stale_after", models.DurationField(verbose_name="taken for dead after")),
                ("stopping_at", TimestampField(null=True, verbose_name="stopping since")),
                ("dead_at", TimestampField(null=True, verbose_name="declared dead at")),
            ],
            options={
                "verbose_name": "worker",
                "verbose_name_plural": "workers",
                "db_table": db_table("django_workers"),
                "managed": False,
                "default_permissions": ("view",),
            },
        ),
    ]
