"""The overview that refreshes by itself, as somebody at a window sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from psycopg import sql

from tests import guards
from tests.browser.conftest import Visit
from tests.browser.visitor import Visitor
from tests.full_house import House

if TYPE_CHECKING:
    from playwright.sync_api import Response

pytestmark = pytest.mark.browser

PAGE = "admin:graphile_worker_overview_changelist"
FRAGMENT = "admin:graphile_worker_overview_fragment"
MINUTE = 60_000


def is_fragment(response: Any) -> bool:
    return bool(response.url.endswith(reverse(FRAGMENT)))


@pytest.fixture
def visitor(house: House, visit: Visit) -> Visitor:
    """At the overview, with a clock that stands still until it is moved."""
    visitor = visit("view_overview", "view_job")
    visitor.page.clock.install()
    visitor.open(reverse(PAGE))
    visitor.page.clock.pause_at(visitor.page.evaluate("Date.now() + 1000"))
    return visitor


def choose(visitor: Visitor, seconds: str) -> None:
    visitor.page.get_by_label("by itself:").select_option(seconds)


def refreshes(visitor: Visitor, seconds: int) -> Response:
    """Let some time pass, in which the page asks for its part again."""
    with visitor.page.expect_response(is_fragment) as response:
        visitor.page.clock.run_for(seconds * 1000)
    return response.value


def tile(visitor: Visitor, name: str) -> Any:
    tiles = visitor.page.locator(".graphile-worker-tiles li")
    return tiles.filter(has_text=name).locator("strong")


def is_shown(visitor: Visitor, name: str, value: int) -> None:
    tile(visitor, name).filter(has_text=str(value)).wait_for()


def add_failed(house: House) -> None:
    """One more job that has failed for good."""
    with guards.observe() as session:
        session.execute(
            sql.SQL(
                "insert into {} (task_id, attempts) select id, 25 from {} order by id limit 1"
            ).format(
                sql.Identifier(house.schema, "_private_jobs"),
                sql.Identifier(house.schema, "_private_tasks"),
            )
        )


def set_hidden(visitor: Visitor, hidden: bool) -> None:
    """As if somebody had gone to another window, or come back."""
    visitor.page.evaluate(
        "hidden => {"
        " Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});"
        " document.dispatchEvent(new Event('visibilitychange')); }",
        hidden,
    )


def asked(visitor: Visitor) -> Callable[[], int]:
    """Count from now on how often the page has asked for its part."""
    seen: list[str] = []
    visitor.page.on("request", lambda r: seen.append(r.url) if is_fragment(r) else None)
    return lambda: len(seen)


def test_numbers_change_and_whatever_one_was_at_stays(house: House, visitor: Visitor) -> None:
    page = visitor.page
    before = int(tile(visitor, "failed").inner_text())
    page.locator("summary").first.click()
    page.evaluate("window.isTheSame = true")
    add_failed(house)
    choose(visitor, "5")
    page.locator("summary").first.focus()
    assert refreshes(visitor, 5).status == 200
    is_shown(visitor, "failed", before + 1)
    assert page.evaluate("window.isTheSame")
    assert page.locator("details").first.get_attribute("open") is not None
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    link = page.get_by_role("link", name="failed", exact=True).first
    link.focus()
    add_failed(house)
    refreshes(visitor, 5)
    is_shown(visitor, "failed", before + 2)
    assert page.evaluate("document.activeElement.getAttribute('href')").endswith("state=failed")
    choose(visitor, "0")
    page.clock.resume()  # whoever looks for obstacles waits now and then
    assert visitor.obstacles() == []


def test_the_choice_is_kept_and_off_is_off(house: House, visitor: Visitor) -> None:
    count = asked(visitor)
    visitor.page.clock.run_for(5 * MINUTE)
    assert count() == 0
    choose(visitor, "15")
    refreshes(visitor, 15)
    visitor.open(reverse(PAGE))
    assert visitor.page.get_by_label("by itself:").input_value() == "15"
    refreshes(visitor, 15)
    is_shown(visitor, "workers alive", 2)
    choose(visitor, "0")
    before = count()
    visitor.page.clock.run_for(5 * MINUTE)
    assert count() == before


def test_nothing_is_asked_for_while_nobody_looks(house: House, visitor: Visitor) -> None:
    count = asked(visitor)
    set_hidden(visitor, True)
    choose(visitor, "2")
    visitor.page.clock.run_for(5 * MINUTE)
    assert count() == 0
    with visitor.page.expect_response(is_fragment):
        set_hidden(visitor, False)  # at once: it has been due for long
        visitor.page.clock.run_for(1)


def test_it_says_that_it_cannot_be_refreshed_and_goes_on(house: House, visitor: Visitor) -> None:
    page = visitor.page
    trouble = page.get_by_role("status")
    page.route(f"**{reverse(FRAGMENT)}", lambda route: route.abort())
    choose(visitor, "2")
    page.clock.run_for(2_000)
    trouble.filter(has_text="It is tried again").wait_for()
    visitor.faults.clear()  # the console has told it, too
    page.unroute(f"**{reverse(FRAGMENT)}")
    refreshes(visitor, 2)
    trouble.filter(has_not_text="out of date").wait_for(state="attached")
    assert trouble.inner_text() == ""


def test_who_is_logged_out_is_told_and_nothing_is_asked_for_again(
    house: House, visitor: Visitor
) -> None:
    count = asked(visitor)
    choose(visitor, "2")
    visitor.context.clear_cookies()
    visitor.page.clock.run_for(2_000)
    visitor.page.get_by_role("status").filter(has_text="log in again").wait_for()
    before = count()
    visitor.page.clock.run_for(5 * MINUTE)
    assert count() == before == 1
    assert visitor.page.get_by_label("by itself:").input_value() == "0"


def test_who_may_not_look_any_more_is_told_and_nothing_is_asked_for_again(
    house: House, visitor: Visitor
) -> None:
    count = asked(visitor)
    choose(visitor, "2")
    User.objects.get(is_superuser=False).user_permissions.clear()
    assert refreshes(visitor, 2).status == 403
    visitor.page.get_by_role("status").filter(has_text="log in again").wait_for()
    visitor.faults.clear()  # the console has told it, too
    visitor.page.clock.run_for(5 * MINUTE)
    assert count() == 1
