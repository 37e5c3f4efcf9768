"""What is done to named queues at a window, and what who may only look finds nowhere."""

from __future__ import annotations

import pytest
from django.urls import reverse

from tests.browser.conftest import Visit
from tests.full_house import House

pytestmark = pytest.mark.browser


JOB = "admin:graphile_worker_job_change"


def test_a_named_queue_is_paused_and_resumed(house: House, visit: Visit) -> None:
    visitor = visit("view_jobqueue", "view_job", "unlock_worker")
    page = visitor.page
    visitor.open(reverse("admin:graphile_worker_jobqueue_changelist"))
    for action, state in (("Pause", "Paused: letters"), ("Resume", "Resumed: letters")):
        row = page.get_by_role("row").filter(has_text="letters")
        row.get_by_role("checkbox").check()
        page.get_by_label("Action:").select_option(label=f"{action} the selected named queues")
        page.get_by_role("button", name="Run").click()
        page.locator(".messagelist").get_by_text(state).wait_for()
        shown = page.get_by_role("row").filter(has_text="letters").get_by_text("paused")
        assert shown.count() == (1 if action == "Pause" else 0)
        visitor.open(reverse(JOB, args=[house.jobs["queued"]]))
        is_paused = "Its named queue “letters” is paused" in visitor.text()
        assert is_paused == (action == "Pause")
        visitor.open(reverse("admin:graphile_worker_jobqueue_changelist"))


def test_who_may_only_look_finds_no_button(house: House, visit: Visit) -> None:
    visitor = visit("view_job", "view_jobqueue", "view_lockedjob")
    for path in (reverse(JOB, args=[house.jobs["failed"]]), *map(reverse, LISTS)):
        visitor.open(path)
        buttons = visitor.page.locator("#content").get_by_role("button").all()
        names = {button.inner_text() or button.get_attribute("value") for button in buttons}
        assert names <= {"Search", "Filter", "Close"}, path


LISTS = (
    "admin:graphile_worker_job_changelist",
    "admin:graphile_worker_jobqueue_changelist",
    "admin:graphile_worker_lockedjob_changelist",
)
