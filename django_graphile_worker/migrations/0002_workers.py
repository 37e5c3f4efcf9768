"""Add what makes a dead worker's jobs run again, and what leads a fetch past a long line."""

from __future__ import annotations

from django.db import migrations

from django_graphile_worker.operations import ExtendSchema


class Migration(migrations.Migration):
    dependencies = [("graphile_worker", "0001_initial")]

    operations = [ExtendSchema("0002")]
