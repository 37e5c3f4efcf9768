"""Tasks and named queues: what waits for each, and the way to its jobs."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from tests.doors.admin.conftest import LogIn
from tests.doors.conftest import AddJob

pytestmark = pytest.mark.django_db

STATES = {
    "ready": {"run_at": "now() - interval '1 minute'"},
    "scheduled": {"run_at": "'2040-01-01 12:00Z'"},
    "retrying": {"run_at": "'2040-01-01 12:00Z'", "attempts": "2"},
    "running": {"locked_at": "now()", "locked_by": "'w'", "attempts": "1"},
    "failed": {"attempts": "25"},
}


@pytest.fixture
def viewer(log_in: LogIn) -> Client:
    return log_in("view_job", "view_task", "view_jobqueue")


def rows(client: Client, model: str) -> dict[str, Any]:
    response: Any = client.get(reverse(f"admin:graphile_worker_{model}_changelist"))
    assert response.status_code == 200
    return {str(row): row for row in response.context["cl"].result_list}


@pytest.mark.parametrize(("model", "name"), [("task", "a&b=c"), ("jobqueue", "q&d=e")])
def test_its_links_lead_to_its_jobs_by_state(
    viewer: Client, add_job: AddJob, model: str, name: str
) -> None:
    found = {
        state: add_job(task="a&b=c", queue="q&d=e", **values) for state, values in STATES.items()
    }
    add_job(task="other", queue="other")
    page = viewer.get(reverse(f"admin:graphile_worker_{model}_changelist"), {"q": name})
    (cell,) = re.findall(r'<span class="graphile-worker-links">(.*?)</span>', page.content.decode())
    links = map(unescape, re.findall(r'href="([^"]*)"', cell))
    for link, state in zip(links, [None, *STATES], strict=True):
        response: Any = viewer.get(link)
        ids = {job.pk for job in response.context["cl"].result_list}
        assert ids == (set(found.values()) if state is None else {found[state]}), link


def test_a_queue_tells_when_its_first_job_is_due(viewer: Client, add_job: AddJob) -> None:
    add_job(queue="later", run_at="'2040-01-02 12:00Z'")
    add_job(queue="later", run_at="'2040-01-01 12:00Z'", priority="1")
    add_job(queue="held", **STATES["running"])
    add_job(queue="parked", run_at="'infinity'")
    found = rows(viewer, "jobqueue")
    assert found["later"].first_run_at.isoformat() == "2040-01-02T12:00:00+00:00"
    assert found["held"].first_run_at is None
    assert found["parked"].first_run_at.year == 9999
    assert [len(found[name].waiting) for name in ("later", "held", "parked")] == [2, 0, 1]


def test_a_task_counts_what_waits_outside_of_queues(viewer: Client, add_job: AddJob) -> None:
    for state in STATES:
        add_job(task="a", **STATES[state])
        add_job(task="a", queue="q", **STATES[state])
    assert sorted(rows(viewer, "task")["a"].waiting) == [False, False, True]
