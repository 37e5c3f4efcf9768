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
    visitor.click_link(str(house.jobs["scheduled"]), exact=True)
    visitor.page.get_by_text("It is scheduled for").wait_for()


def test_a_failed_job_is_run_again(house: House, visit: Visit) -> None:
    visitor = visit()
    visitor.open_index()
    visitor.click_link("Jobs", exact=True)
    visitor.page.get_by_role("link", name="failed 1").click()
    visitor.click_link(str(house.jobs["failed"]), exact=True)
    visitor.page.get_by_role("button", name="Run now").click()
    visitor.page.locator(".messagelist").get_by_text("Run now: 1 job.").wait_for()
    visitor.page.get_by_text("It has failed for good").wait_for(state="detached")


def test_some_jobs_are_completed_after_a_page_has_asked(house: House, visit: Visit) -> None:
    """Without JavaScript, and by the list's own form."""
    visitor = visit("view_job", "act_on_job", script=False)
    visitor.open_index()
    visitor.click_link("Jobs", exact=True)
    page = visitor.page
    for name in ("ready", "running", "scheduled"):
        page.get_by_role("row").filter(
            has=page.get_by_role("link", name=str(house.jobs[name]), exact=True)
        ).get_by_role("checkbox").check()
    page.get_by_label("Action:").select_option(label="Complete")
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("1 of them is held by a worker").wait_for()
    page.get_by_role("button", name="Complete").click()
    page.locator(".messagelist").get_by_text("Complete: 2 jobs.").wait_for()
    page.locator(".messagelist").get_by_text("1 job was left alone").wait_for()


def test_which_key_is_fought_over(house: House, visit: Visit) -> None:
    visitor = visit()
    visitor.open_index()
    visitor.click_link("Keyed-job conflicts", exact=True)
    visitor.page.locator("#content table").first.get_by_role(
        "link", name="page-1", exact=True
    ).click()
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
