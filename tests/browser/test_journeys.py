"""Somebody who was never here finds what is asked for; each line that clicks is a click."""

from __future__ import annotations

import pytest

from tests.browser.conftest import Visit
from tests.full_house import House

pytestmark = pytest.mark.browser


def test_why_a_job_is_not_running(house: House, visit: Visit) -> None:
    visitor = visit()
    visitor.open_index()
    visitor.click_link("Jobs", exact=True)
    visitor.page.get_by_role("textbox", name="Search").fill("letter-7")
    visitor.page.get_by_role("button", name="Search").click()
    visitor.page.get_by_role("cell", name="scheduled", exact=True).wait_for()


def test_which_key_is_fought_over(house: House, visit: Visit) -> None:
    visitor = visit()
    visitor.open_index()
    visitor.click_link("Keyed-job conflicts", exact=True)
    live = visitor.page.locator("#content table").first
    live.get_by_role("link", name="page-1", exact=True).click()
    visitor.page.get_by_role("heading", name="Conflicts of a key").wait_for()


def test_which_worker_is_dead(house: House, visit: Visit) -> None:
    visitor = visit()
    visitor.open_index()
    visitor.click_link("Workers", exact=True)
    row = visitor.page.get_by_role("row").filter(has_text=house.workers["dead"])
    row.get_by_text("dead", exact=True).wait_for()


def test_a_worker_is_unlocked_by_keyboard_alone(house: House, visit: Visit) -> None:
    visitor = visit()
    visitor.open_index()
    visitor.click_link("Locked rows (jobs)", exact=True)
    page = visitor.page
    page.locator("a[href*='unlock'][href*='aaaa']").first.press("Enter")
    page.get_by_role("checkbox").press("Space")
    page.get_by_role("button", name="Unlock this worker").press("Enter")
    page.locator(".messagelist").get_by_text("unlocked").wait_for()
    assert page.locator("a[href*='unlock'][href*='aaaa']").count() == 0
