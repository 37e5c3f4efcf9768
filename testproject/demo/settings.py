"""The test project's settings, and some tasks more, for ``--serve``."""

from __future__ import annotations

from testproject.settings import *  # noqa: F403
from testproject.settings import INSTALLED_APPS, MIDDLEWARE

INSTALLED_APPS = [*INSTALLED_APPS, "testproject.letters"]

# The browser's language, which has to come after the session and before the rest.
MIDDLEWARE = list(MIDDLEWARE)
MIDDLEWARE.insert(2, "django.middleware.locale.LocaleMiddleware")
