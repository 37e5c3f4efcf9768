"""The same project for the peer procrastinate, which keeps its jobs in tables of its own."""

from __future__ import annotations

from testproject.settings import *  # noqa: F403
from testproject.settings import INSTALLED_APPS as USUAL_APPS

INSTALLED_APPS = [
    *(app for app in USUAL_APPS if app not in ("testproject.reported", "django_graphile_worker")),
    "procrastinate.contrib.django",
    "benchmarks.project.peers",
]
