"""Links from the row of a task or a named queue to its jobs, all of them and by state."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext_lazy as _

from django_graphile_worker.admin.job_lists import STATES


def to_jobs(site: str, **names: str) -> str:
    """Return links to the list of jobs, narrowed by `task` or `queue`."""
    url = reverse("admin:graphile_worker_job_changelist", current_app=site)
    pages: list[tuple[Any, dict[str, str]]] = [(_("all"), {})]
    pages += [(label, {"state": state}) for state, (label, _condition) in STATES.items()]
    links = format_html_join(
        " · ",
        '<a href="{}?{}">{}</a>',
        ((url, urlencode(names | query), label) for label, query in pages),
    )
    return format_html('<span class="graphile-worker-links">{}</span>', links)
