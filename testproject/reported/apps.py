"""The app's entry for INSTALLED_APPS."""

from __future__ import annotations

from django.apps import AppConfig


class ReportedConfig(AppConfig):
    name = "testproject.reported"
    label = "reported"
    verbose_name = "Reported workload"
    # Named here, so that no DEFAULT_AUTO_FIELD changes the migrations.
    default_auto_field = "django.db.models.BigAutoField"
