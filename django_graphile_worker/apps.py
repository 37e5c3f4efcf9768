"""The app's door into Django."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.core.checks import Tags, register
from django.db.models.signals import post_migrate
from django.utils.translation import gettext_lazy as _


class GraphileWorkerConfig(AppConfig):
    """Registers the checks, what mends after `migrate`, and the tasks of every installed app."""

    name = "django_graphile_worker"
    label = "graphile_worker"
    verbose_name = _("Graphile Worker")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django_graphile_worker import checks, registry

        register(checks.check_databases, "graphile_worker")
        register(checks.check_functions, Tags.database)
        register(checks.check_stranded_jobs, Tags.database)
        post_migrate.connect(self._mend, sender=self)
        registry.autodiscover()

    def _mend(self, using: str, **kwargs: Any) -> None:
        """Put back the functions of ours that another installer has replaced since."""
        from django_graphile_worker import schemas
        from django_graphile_worker.conf import get_config

        if using in get_config().databases:
            schemas.mend_after_migrate(using)
