"""The app's entry for INSTALLED_APPS."""

from __future__ import annotations

from django.apps import AppConfig


class ReportedConfig(AppConfig):
    name = "testproject.reported"
    label = "reported"
    verbose_name = "Reported workload"
