"""Every page can be seen and used: with any colours, at any width, and without JavaScript."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.urls import reverse

from django_graphile_worker.models import Job
from tests.browser.conftest import Visit
from tests.browser.visitor import NARROW, Visitor
from tests.full_house import House

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Route

pytestmark = pytest.mark.browser

MODELS = [model for model in admin.site._registry if model._meta.app_label == "graphile_worker"]
each_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.model_name)


def list_of(model: type[Any]) -> str:
    return reverse(f"admin:graphile_worker_{model._meta.model_name}_changelist")


def pages(visitor: Visitor, model: type[Any]) -> list[str]:
    """The list of a model, and the page of the first in it if it has one."""
    visitor.open(list_of(model))
    first = visitor.page.locator("#result_list tbody th a, #result_list .field-id a")
    return [list_of(model), *[str(a.get_attribute("href")) for a in first.all()[:1]]]


@each_model
def test_nothing_keeps_anybody_out(house: House, visit: Visit, model: type[Any]) -> None:
    """Light, dark and narrow; one visit for all three, since the queue takes longest to make."""
    visitor = visit()
    for page in pages(visitor, model):
        visitor.open(page)
        assert visitor.obstacles() == []
        visitor.darken()
        visitor.open(page)  # or a colour that is on its way would be judged
        assert visitor.obstacles("color-contrast") == []
        visitor.resize(NARROW)
        assert not visitor.scrolls_sideways(), page
        assert visitor.obstacles() == []
        visitor.resize(1280)


# What a careful project sends with each page: no script but from files of its own.
POLICY = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:"


@each_model
def test_every_page_obeys_a_strict_policy(house: House, visit: Visit, model: type[Any]) -> None:
    visitor = visit()

    def with_policy(route: Route) -> None:
        response = route.fetch()
        headers = {**response.headers, "content-security-policy": POLICY}
        route.fulfill(response=response, headers=headers)

    visitor.page.route("**/admin/**", with_policy)
    for page in pages(visitor, model):
        visitor.open(page)
    # What it forbids is told on the console, where the visitor listens.


@each_model
def test_without_javascript_everything_is_there(
    house: House, visit: Visit, model: type[Any]
) -> None:
    visitor, other = visit(script=False), visit()
    for page in pages(other, model):
        other.open(page)
        visitor.open(page)
        texts = [of.page.locator("#content").inner_text() for of in (visitor, other)]
        words = [set(text.split()) for text in texts]
        # Ages and the like may differ by a second; nothing may be there for scripts only.
        assert len(words[1] - words[0]) < 10, words[1] - words[0]
        assert visitor.page.locator("#content h1").inner_text()


def test_somebody_logs_in_and_finds_the_queue(live_server: Any, browser: Browser) -> None:
    User.objects.create_superuser("ada", password="a long password")
    visitor = Visitor(browser, live_server.url)
    visitor.open_index()
    visitor.page.get_by_label("Username").fill("ada")
    visitor.page.get_by_label("Password").fill("a long password")
    visitor.page.get_by_role("button", name="Log in").click()
    visitor.page.get_by_role("link", name="Jobs", exact=True).first.click()
    visitor.page.wait_for_url(f"**{list_of(Job)}")
    visitor.close()
