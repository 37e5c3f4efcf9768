"""The test project's settings, and some tasks more, for ``--serve``."""

from __future__ import annotations

from testproject.settings import *  # noqa: F403
from testproject.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "testproject.letters"]
