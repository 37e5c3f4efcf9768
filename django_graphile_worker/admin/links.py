"""Links from one list to another, where the site has that other."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib.admin import AdminSite
from django.db.models import Model
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext_lazy as _

from django_graphile_worker.admin.job_lists import STATES
from django_graphile_worker.models import Job


def link(
    site: AdminSite, model: type[Model], page: str, text: Any, *args: Any, **query: str
) -> str:
    """Return a link to a model's page; on a site without that model, its text alone."""
    if not site.is_registered(model):
        return str(text)
    name = f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}"
    url = reverse(name, args=args, current_app=site.name)
    return format_html('<a href="{}{}">{}</a>', url, query and f"?{urlencode(query)}", text)


def to_jobs(site: AdminSite, **names: str) -> str:
    """Return links to the list of jobs, all and by state, narrowed by `task` or `queue`."""
    pages: list[tuple[Any, dict[str, str]]] = [(_("all"), {})]
    pages += [(label, {"state": state}) for state, (label, _condition) in STATES.items()]
    links = ((link(site, Job, "changelist", label, **names, **query),) for label, query in pages)
    return format_html(
        '<span class="graphile-worker-links">{}</span>', format_html_join(" · ", "{}", links)
    )
