"""What the admin's templates cannot say by themselves."""

from __future__ import annotations

from typing import Any

from django import template
from django.utils.translation import gettext_lazy as _

register = template.Library()

APP = "graphile_worker"

PAGES = (
    ("Overview", _("Overview")),
    ("Job", _("Jobs")),
    ("KeyConflict", _("Conflicts")),
    ("LockedJob", _("Locked jobs")),
    ("LockedQueue", _("Locked queues")),
    ("Worker", _("Workers")),
    ("JobQueue", _("Named queues")),
    ("Task", _("Tasks")),
    ("JobError", _("Failed attempts")),
)
"""The pages in the order that somebody looks for something in; others follow."""


@register.inclusion_tag("admin/graphile_worker/navigation.html", takes_context=True)
def graphile_worker_navigation(context: dict[str, Any]) -> dict[str, Any]:
    """Link to all pages of the queue that the user may see on this admin site.

    Takes them from the site's own list, which every page of an admin has.
    """
    apps = context.get("available_apps") or []
    models = [model for app in apps if app["app_label"] == APP for model in app["models"]]
    order = {name: index for index, (name, _label) in enumerate(PAGES)}
    labels: dict[str, Any] = dict(PAGES)
    opts = context.get("opts")
    current = opts.object_name if opts is not None and opts.app_label == APP else None
    pages = [
        {
            "label": labels.get(model["object_name"], model["name"]),
            "url": model["admin_url"],
            "is_current": model["object_name"] == current,
        }
        for model in sorted(models, key=lambda one: order.get(one["object_name"], len(order)))
        if model["admin_url"]
    ]
    return {"pages": pages}
