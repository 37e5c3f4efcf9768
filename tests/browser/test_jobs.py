"""The list of jobs, the page of one, and each action on them, as somebody at a window does it."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from django_graphile_worker.models import Job
from tests.browser.conftest import Visit
from tests.browser.visitor import NARROW, Visitor
from tests.full_house import NOTE, PASSWORD, House

pytestmark = pytest.mark.browser

LIST = "admin:graphile_worker_job_changelist"
PAGE = "admin:graphile_worker_job_change"


def page_of(house: House, name: str) -> str:
    return reverse(PAGE, args=[house.jobs[name]])


def rows(visitor: Visitor) -> Any:
    return visitor.page.locator("#result_list tbody tr")


def press(visitor: Visitor, name: str) -> None:
    with visitor.leaves():
        visitor.page.get_by_role("button", name=name, exact=True).click()


def said(visitor: Visitor) -> str:
    return str(visitor.page.locator(".messagelist").inner_text())


def stored(house: House, name: str) -> Any:
    return Job.objects.filter(pk=house.jobs[name]).first()


def test_tabs_filters_and_a_search_narrow_the_list(house: House, visit: Visit) -> None:
    visitor = visit("view_job")
    page = visitor.page
    visitor.open(reverse(LIST))
    tabs = page.get_by_role("navigation", name="States").get_by_role("link")
    for number in range(1, tabs.count()):
        name, count = tabs.nth(number).inner_text().split()
        with visitor.leaves():
            tabs.nth(number).click()
        states = rows(visitor).locator(".field-state").all_inner_texts()
        assert states == [name] * int(count)
        assert tabs.nth(number).get_attribute("aria-current") == "page"
    with visitor.leaves():
        tabs.first.click()
    page.get_by_label("task", exact=False).first.fill("resize_image")
    press(visitor, "Search")
    assert set(rows(visitor).locator(".field-task_identifier").all_inner_texts()) == {
        "resize_image"
    }
    with visitor.leaves():
        tabs.filter(has_text="ready").click()  # the filter stays
    assert rows(visitor).count() == 1
    visitor.open(f"{reverse(LIST)}?queue=accounts")
    assert rows(visitor).count() == 2
    page.get_by_role("textbox", name="Search").fill(str(house.jobs["behind"]))
    press(visitor, "Search")
    assert rows(visitor).count() == 1
    page.get_by_role("textbox", name="Search").fill("nothing has it")
    press(visitor, "Search")
    page.get_by_text("No job matches.").wait_for()


def test_a_payload_and_its_secrets(house: House, visit: Visit) -> None:
    reader, viewer = visit("view_job", "view_payload"), visit("view_job")
    for visitor in (reader, viewer):
        visitor.open(page_of(house, "ready"))
        assert PASSWORD not in visitor.page.content()
    assert NOTE in reader.text()
    assert NOTE not in viewer.page.content()
    assert viewer.page.get_by_role("button", name="Complete").count() == 0


def test_a_job_is_rescheduled_once_the_form_is_right(house: House, visit: Visit) -> None:
    visitor = visit("view_job", "act_on_job")
    page = visitor.page
    visitor.open(page_of(house, "failed"))
    press(visitor, "Reschedule…")
    press(visitor, "Reschedule")  # nothing is filled in
    page.get_by_role("alert").wait_for()
    attempts = page.get_by_role("spinbutton", name="Attempts", exact=True)
    page.get_by_label("priority").fill("99999")
    attempts.fill("3")
    press(visitor, "Reschedule")
    page.get_by_text("less than or equal to 32767").wait_for()
    assert visitor.obstacles() == []
    assert attempts.input_value() == "3"
    page.get_by_label("priority").fill("7")
    page.get_by_label("run at").fill("2099-01-02T03:04:05")
    press(visitor, "Reschedule")
    assert "Reschedule: 1 job." in said(visitor)
    page.get_by_text("Attempt 3 of 25 has failed").wait_for()
    job = stored(house, "failed")
    assert (job.priority, job.attempts, job.run_at.year) == (7, 3, 2099)


@pytest.mark.parametrize(
    ("button", "name", "what"),
    [
        ("Fail", "scheduled", "is run no more"),
        ("Complete", "ready", "is deleted as if it had run"),
        ("Remove by key", "scheduled", "its key is free again"),
    ],
)
def test_what_cannot_be_undone_is_asked_first(
    house: House, visit: Visit, button: str, name: str, what: str
) -> None:
    """By keyboard alone, in a narrow window; one who says no has changed nothing."""
    visitor = visit("view_job", "act_on_job", width=NARROW)
    page = visitor.page
    visitor.open(page_of(house, name))

    def ask() -> None:
        with visitor.leaves():
            page.get_by_role("button", name=f"{button}…").press("Enter")
        page.get_by_role("region", name="What will happen").get_by_text(what).wait_for()

    ask()
    assert not visitor.scrolls_sideways()
    assert visitor.obstacles() == []
    with visitor.leaves():
        page.get_by_role("link", name="No, take me back").press("Enter")
    before = stored(house, name)
    assert before.attempts == 0
    ask()
    with visitor.leaves():
        page.get_by_role("button", name=button, exact=True).press("Enter")
    assert f"{button}: 1 job." in said(visitor)
    after = stored(house, name)
    if button == "Fail":
        assert after.attempts == after.max_attempts
        page.get_by_text("It has failed for good").wait_for()
    else:
        assert after is None


def test_all_that_a_list_shows_are_run_at_once(house: House, visit: Visit) -> None:
    visitor = visit("view_job", "act_on_job")
    visitor.open(f"{reverse(LIST)}?state=retrying")
    press(visitor, "Run all of these now")
    visitor.page.get_by_text("becomes due at once").wait_for()
    press(visitor, "Run now")
    assert "Run now: 1 job." in said(visitor)
    visitor.page.get_by_text("No job waits to be tried again.").wait_for()
    assert stored(house, "scheduled").is_available


def test_a_job_that_runs_has_no_buttons(house: House, visit: Visit) -> None:
    visitor = visit("view_job", "act_on_job")
    visitor.open(page_of(house, "running"))
    visitor.page.get_by_text("A worker holds this job").wait_for()
    assert visitor.page.get_by_role("group", name="Actions").count() == 0
