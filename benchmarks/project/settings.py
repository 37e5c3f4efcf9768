"""The test project's settings, with the tasks of the benchmarks in place of its own."""

from __future__ import annotations

from testproject.settings import *  # noqa: F403
from testproject.settings import INSTALLED_APPS as USUAL_APPS

INSTALLED_APPS = [
    *(app for app in USUAL_APPS if app != "testproject.reported"),
    "benchmarks.project",
]
