"""A Chromium that visits the admin on a server of this process, with a queue in every state.

Playwright keeps an event loop in the thread that uses it, and Django's ORM refuses to work beside
one. Nothing here is asynchronous, so it is let.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.models import Permission, User
from django.contrib.sessions.backends.db import SessionStore
from django.http import HttpRequest

from tests import guards, node
from tests.browser.visitor import ARGUMENTS, Visitor
from tests.full_house import House, furnish

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from pytest_django.live_server_helper import LiveServer

Visit = Callable[..., Visitor]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for each module, so that no event loop is left for the tests elsewhere."""
    from playwright.sync_api import sync_playwright

    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setitem(os.environ, "DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        browser = playwright.chromium.launch(
            executable_path=str(node.chromium()), args=list(ARGUMENTS)
        )
        yield browser
        browser.close()


@pytest.fixture
def house(transactional_db: None, schema: str) -> House:
    """A queue with something in every state, whose texts can be read."""
    with guards.observe() as session:
        return furnish(session, schema)


@pytest.fixture
def visit(browser: Browser, live_server: LiveServer) -> Iterator[Visit]:
    """Open a window: ``visit(*permissions, width=1280, dark=False, script=True, language=...)``.

    Without permissions named it is a superuser's, with them somebody's of the staff who has those.
    """
    opened: list[Visitor] = []

    def visit(*permissions: str, **options: Any) -> Visitor:
        visitor = Visitor(browser, live_server.url, **options)
        opened.append(visitor)
        visitor.context.add_cookies(
            [
                {
                    "name": settings.SESSION_COOKIE_NAME,
                    "value": session_of(user_with(*permissions)),
                    "url": live_server.url,
                }
            ]
        )
        return visitor

    yield visit
    for visitor in opened:
        visitor.close()


def user_with(*permissions: str) -> User:
    name = ",".join(permissions)[:150] or "root"
    user, _ = User.objects.get_or_create(
        username=name, defaults={"is_staff": True, "is_superuser": not permissions}
    )
    found = Permission.objects.filter(
        content_type__app_label="graphile_worker", codename__in=permissions
    )
    assert {permission.codename for permission in found} == set(permissions)
    user.user_permissions.set(found)
    return user


def session_of(user: User) -> str:
    """Log in as the test client does: typing a password in each test would take longer."""
    request = HttpRequest()
    request.session = SessionStore()
    login(request, user, "django.contrib.auth.backends.ModelBackend")
    request.session.save()
    assert request.session.session_key is not None
    return request.session.session_key
