"""The app's door into Django."""

from __future__ import annotations

from django.apps import AppConfig
from django.core.checks import register
from django.utils.translation import gettext_lazy as _


class GraphileWorkerConfig(AppConfig):
    """Registers the checks, and the tasks of every installed app; nothing else at start-up."""

    name = "django_graphile_worker"
    label = "graphile_worker"
    verbose_name = _("Graphile Worker")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django_graphile_worker import checks, registry

        register(checks.check_databases, "graphile_worker")
        registry.autodiscover()
