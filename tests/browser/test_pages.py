"""Every page can be seen and used: with any colours, at any width, and without JavaScript."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.urls import reverse

from tests.browser.conftest import Visit
from tests.browser.visitor import NARROW, Visitor
from tests.full_house import House

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
