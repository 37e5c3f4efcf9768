"""Each action, done at a window: what it asks, what it answers, and what became of the job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.urls import reverse
from psycopg import sql

from tests import guards
from tests.browser.conftest import Visit
from tests.browser.visitor import NARROW, Visitor
from tests.full_house import PASSWORD, House

if TYPE_CHECKING:
    from playwright.sync_api import Locator

pytestmark = pytest.mark.browser


def job_page(pk: int) -> str:
    return reverse("admin:graphile_worker_job_change", args=[pk])


def job(house: House, pk: int) -> dict[str, Any] | None:
    """The row of a job, as it is now."""
    with guards.observe() as session:
        cursor = session.execute(
            sql.SQL(
                "select attempts, max_attempts, priority, last_error, key, run_at <= now()"
                " from {} where id = %s"
            ).format(sql.Identifier(house.schema, "_private_jobs")),
            [pk],
        )
        row = cursor.fetchone()
        return None if row is None else dict(zip(COLUMNS, row, strict=True))


COLUMNS = ("attempts", "max_attempts", "priority", "last_error", "key", "is_due")


def choose(visitor: Visitor, pk: int, action: str) -> None:
    """Press an action's button on the page of a job."""
    visitor.open(job_page(pk))
    press(visitor, action)


def press(visitor: Visitor, name: str) -> None:
    visitor.page.get_by_role("button", name=name).click()


def told(visitor: Visitor) -> Locator:
    return visitor.page.locator(".messagelist")


def nothing_is_in_the_way(visitor: Visitor) -> None:
    """The page that is shown can be used in the light, in the dark and at a narrow window."""
    assert visitor.obstacles() == []
    visitor.darken()
    visitor.page.reload()  # or a colour that is on its way would be judged
    assert visitor.obstacles("color-contrast") == []
    visitor.resize(NARROW)
    assert not visitor.scrolls_sideways()
    assert visitor.obstacles() == []


def test_a_job_is_rescheduled_once_the_form_is_right(house: House, visit: Visit) -> None:
    pk = house.jobs["failed"]
    visitor = visit("view_job", "act_on_job")
    choose(visitor, pk, "Reschedule")
    nothing_is_in_the_way(visitor)
    before = job(house, pk)
    press(visitor, "Reschedule")
    visitor.page.get_by_text("Fill in at least one").wait_for()
    visitor.page.get_by_label("Priority").fill("40000")
    press(visitor, "Reschedule")
    visitor.page.get_by_role("alert").get_by_text("Nothing was changed").wait_for()
    assert visitor.page.get_by_label("Priority").input_value() == "40000"
    assert visitor.obstacles() == []
    assert job(house, pk) == before

    visitor.page.get_by_label("Priority").fill("-3")
    visitor.page.get_by_label("Attempts", exact=True).fill("0")
    visitor.page.get_by_label("Run at").fill("2040-01-02T03:04:05")
    press(visitor, "Reschedule")
    told(visitor).get_by_text("Reschedule: 1 job.").wait_for()
    visitor.page.get_by_text("It is scheduled for Jan. 2, 2040").or_(
        visitor.page.get_by_text("It is scheduled for January 2, 2040")
    ).wait_for()
    row = job(house, pk)
    assert row is not None
    assert (row["priority"], row["attempts"], row["is_due"]) == (-3, 0, False)


def test_a_job_fails_with_a_message(house: House, visit: Visit) -> None:
    pk = house.jobs["scheduled"]
    visitor = visit("view_job", "act_on_job")
    choose(visitor, pk, "Fail")
    nothing_is_in_the_way(visitor)
    visitor.page.get_by_label("Message").fill("not wanted any more")
    press(visitor, "Fail")
    told(visitor).get_by_text("Fail: 1 job.").wait_for()
    visitor.page.get_by_text("It has failed for good").wait_for()
    row = job(house, pk)
    assert row is not None
    assert (row["attempts"], row["last_error"]) == (row["max_attempts"], "not wanted any more")


@pytest.mark.parametrize("action", ["Complete", "Remove by key"])
def test_a_job_is_deleted_by_who_says_so_twice(house: House, visit: Visit, action: str) -> None:
    pk = house.jobs["scheduled"]
    visitor = visit("view_job", "act_on_job")
    choose(visitor, pk, action)
    visitor.page.get_by_text("nothing is left of it").wait_for()
    visitor.click_link("No, take me back")
    visitor.page.get_by_text("It is scheduled for").wait_for()
    assert job(house, pk) is not None

    press(visitor, action)
    press(visitor, action)
    told(visitor).get_by_text(f"{action}: 1 job.").wait_for()
    visitor.page.wait_for_url(f"**{reverse('admin:graphile_worker_job_changelist')}")
    assert job(house, pk) is None


def test_all_that_match_are_run_now(house: House, visit: Visit) -> None:
    visitor = visit("view_job", "act_on_job")
    visitor.open(reverse("admin:graphile_worker_job_changelist") + "?state=retrying")
    press(visitor, "Run all of these now")
    visitor.page.get_by_text("1 job is chosen.").wait_for()
    press(visitor, "Run now")
    told(visitor).get_by_text("Run now: 1 job.").wait_for()
    visitor.page.get_by_text("No job waits to be tried again.").wait_for()
    row = job(house, house.jobs["retrying"])
    assert row is not None
    assert row["is_due"]


def test_a_payload_is_for_who_may_see_it_and_a_secret_for_nobody(
    house: House, visit: Visit
) -> None:
    pk = house.jobs["scheduled"]
    visitor = visit("view_job")
    visitor.open(job_page(pk))
    assert "ada@example.org" not in visitor.text()
    reader = visit("view_job", "view_payload")
    reader.open(job_page(pk))
    assert "ada@example.org" in reader.text()
    assert "password" in reader.text()
    assert PASSWORD not in reader.page.content()


def test_a_named_queue_is_paused_and_resumed(house: House, visit: Visit) -> None:
    visitor = visit("view_jobqueue", "view_job", "unlock_worker")
    page = visitor.page
    visitor.open(reverse("admin:graphile_worker_jobqueue_changelist"))
    for action, state in (("Pause", "Paused: letters"), ("Resume", "Resumed: letters")):
        row = page.get_by_role("row").filter(has_text="letters")
        row.get_by_role("checkbox").check()
        page.get_by_label("Action:").select_option(label=f"{action} the selected named queues")
        press(visitor, "Run")
        told(visitor).get_by_text(state).wait_for()
        shown = page.get_by_role("row").filter(has_text="letters").get_by_text("paused")
        assert shown.count() == (1 if action == "Pause" else 0)
        visitor.open(job_page(house.jobs["queued"]))
        is_paused = "Its named queue “letters” is paused" in visitor.text()
        assert is_paused == (action == "Pause")
        visitor.open(reverse("admin:graphile_worker_jobqueue_changelist"))


def test_who_may_only_look_finds_no_button(house: House, visit: Visit) -> None:
    visitor = visit("view_job", "view_jobqueue", "view_lockedjob")
    for path in (job_page(house.jobs["failed"]), *map(reverse, LISTS)):
        visitor.open(path)
        buttons = visitor.page.locator("#content").get_by_role("button").all()
        names = {button.inner_text() or button.get_attribute("value") for button in buttons}
        assert names <= {"Search", "Filter", "Close"}, path


LISTS = (
    "admin:graphile_worker_job_changelist",
    "admin:graphile_worker_jobqueue_changelist",
    "admin:graphile_worker_lockedjob_changelist",
)
