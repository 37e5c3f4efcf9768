"""Install the schema shared with Node and Rust workers, and our corrected functions."""

from __future__ import annotations

from django.db import migrations, models

from django_graphile_worker.fields import JSONTextField, TimestampField
from django_graphile_worker.operations import InstallSchema
from django_graphile_worker.tables import db_table


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        InstallSchema("0001"),
        migrations.CreateModel(
            name="Job",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("payload", JSONTextField(verbose_name="payload")),
                ("priority", models.SmallIntegerField(verbose_name="priority")),
                ("run_at", TimestampField(verbose_name="run at")),
                ("attempts", models.SmallIntegerField(verbose_name="attempts")),
                ("max_attempts", models.SmallIntegerField(verbose_name="max attempts")),
                ("last_error", models.TextField(null=True, verbose_name="last error")),
                ("created_at", TimestampField(verbose_name="created at")),
                ("updated_at", TimestampField(verbose_name="updated at")),
                (
                    "key",
                    models.CharField(max_length=512, null=True, unique=True, verbose_name="key"),
                ),
                ("locked_at", TimestampField(null=True, verbose_name="locked at")),
                ("locked_by", models.TextField(null=True, verbose_name="locked by")),
                ("revision", models.IntegerField(verbose_name="revision")),
                ("flags", models.JSONField(null=True, verbose_name="flags")),
                ("is_available", models.BooleanField(verbose_name="is available")),
            ],
            options={
                "verbose_name": "job",
                "verbose_name_plural": "jobs",
                "db_table": db_table("_private_jobs"),
                "permissions": [
                    ("view_payload", "Can view the payload of jobs"),
                    ("act_on_job", "Can run, reschedule, complete and fail jobs"),
                    ("unlock_worker", "Can unlock what a worker holds"),
                ],
                "managed": False,
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="JobQueue",
            fields=[
                ("id", models.AutoField(primary_key=True, serialize=False)),
                (
                    "queue_name",
                    models.CharField(max_length=128, unique=True, verbose_name="queue name"),
                ),
                ("locked_at", TimestampField(null=True, verbose_name="locked at")),
                ("locked_by", models.TextField(null=True, verbose_name="locked by")),
                ("is_available", models.BooleanField(verbose_name="is available")),
            ],
            options={
                "verbose_name": "named queue",
                "verbose_name_plural": "named queues",
                "db_table": db_table("_private_job_queues"),
                "managed": False,
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="KeyConflict",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("recorded_at", TimestampField(verbose_name="recorded at")),
                ("key", models.TextField(verbose_name="key")),
                ("mode", models.TextField(verbose_name="job key mode")),
                ("superseded_job_id", models.BigIntegerField(verbose_name="superseded job")),
                (
                    "superseded_task",
                    models.TextField(null=True, verbose_name="superseded job's task"),
                ),
                ("superseded_state", models.TextField(verbose_name="superseded job's state")),
                (
                    "superseded_attempts",
                    models.SmallIntegerField(verbose_name="superseded job's attempts"),
                ),
                (
                    "superseded_max_attempts",
                    models.SmallIntegerField(verbose_name="superseded job's max attempts"),
                ),
                ("superseded_locked_by", models.TextField(null=True, verbose_name="locked by")),
                ("superseded_locked_at", TimestampField(null=True, verbose_name="locked at")),
                ("successor_job_id", models.BigIntegerField(verbose_name="successor job")),
                (
                    "successor_task",
                    models.TextField(null=True, verbose_name="successor job's task"),
                ),
                ("outcome", models.TextField(null=True, verbose_name="outcome")),
                ("finished_at", TimestampField(null=True, verbose_name="finished at")),
            ],
            options={
                "verbose_name": "keyed-job conflict",
                "verbose_name_plural": "keyed-job conflicts",
                "db_table": db_table("django_key_conflicts"),
                "managed": False,
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="KnownCrontab",
            fields=[
                (
                    "identifier",
                    models.TextField(primary_key=True, serialize=False, verbose_name="identifier"),
                ),
                ("known_since", TimestampField(verbose_name="known since")),
                ("last_execution", TimestampField(null=True, verbose_name="last execution")),
            ],
            options={
                "verbose_name": "known crontab",
                "verbose_name_plural": "known crontabs",
                "db_table": db_table("_private_known_crontabs"),
                "managed": False,
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="Task",
            fields=[
                ("id", models.AutoField(primary_key=True, serialize=False)),
                (
                    "identifier",
                    models.CharField(max_length=128, unique=True, verbose_name="identifier"),
                ),
            ],
            options={
                "verbose_name": "task",
                "verbose_name_plural": "tasks",
                "db_table": db_table("_private_tasks"),
                "managed": False,
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="LockedJob",
            fields=[],
            options={
                "verbose_name": "locked job",
                "verbose_name_plural": "locked rows (jobs)",
                "proxy": True,
                "default_permissions": ("view",),
                "indexes": [],
                "constraints": [],
            },
            bases=("graphile_worker.job",),
        ),
        migrations.CreateModel(
            name="LockedQueue",
            fields=[],
            options={
                "verbose_name": "locked named queue",
                "verbose_name_plural": "locked rows (named queues)",
                "proxy": True,
                "default_permissions": ("view",),
                "indexes": [],
                "constraints": [],
            },
            bases=("graphile_worker.jobqueue",),
        ),
    ]
