"""Add what our workers count, by minute and task, and the page that shows it."""

from __future__ import annotations

from django.db import migrations, models

from django_graphile_worker.fields import TimestampField
from django_graphile_worker.operations import ExtendSchema
from django_graphile_worker.tables import db_table


class Migration(migrations.Migration):
    dependencies = [("graphile_worker", "0002_workers")]

    operations = [
        ExtendSchema("0003"),
        migrations.CreateModel(
            name="Statistic",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("minute", TimestampField(verbose_name="minute")),
                ("task_identifier", models.TextField(verbose_name="task")),
                ("succeeded", models.BigIntegerField(verbose_name="succeeded")),
                ("retried", models.BigIntegerField(verbose_name="failed, to be tried again")),
                ("failed", models.BigIntegerField(verbose_name="failed for good")),
            ],
            options={
                "verbose_name": "statistic",
                "verbose_name_plural": "statistics",
                "db_table": db_table("django_statistics"),
                "managed": False,
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="Overview",
            fields=[],
            options={
                "verbose_name": "overview",
                "verbose_name_plural": "overview",
                "proxy": True,
                "default_permissions": ("view",),
                "indexes": [],
                "constraints": [],
            },
            bases=("graphile_worker.statistic",),
        ),
    ]
