"""Named queues are paused and resumed from their list, and every page tells."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse

from django_graphile_worker import pause_queue
from django_graphile_worker.models import JobQueue
from django_graphile_worker.statements.queues import PAUSED
from tests.doors.admin.conftest import LogIn
from tests.doors.admin.job_pages import hold_queue, page_of
from tests.doors.conftest import AddJob

pytestmark = pytest.mark.django_db

LIST = "admin:graphile_worker_jobqueue_changelist"


@pytest.fixture
def operator(log_in: LogIn) -> Client:
    return log_in("view_jobqueue", "view_lockedqueue", "view_job", "unlock_worker")


def press(client: Client, action: str, *queues: JobQueue) -> list[str]:
    chosen = {"action": action, "_selected_action": [queue.pk for queue in queues]}
    answer: Any = client.post(reverse(LIST), chosen, follow=True)
    assert answer.status_code == 200
    return [str(message) for message in answer.context["messages"]]


def holders() -> dict[str, str | None]:
    return dict(JobQueue.objects.values_list("queue_name", "locked_by"))


def test_each_is_told_what_became_of_it(operator: Client, add_job: AddJob, schema: str) -> None:
    for name in "abc":
        add_job(queue=name)
    running = add_job(
        queue="d", locked_at="now()", locked_by="'worker-1'", attempts="1", max_attempts="1"
    )
    hold_queue(schema, "d", "worker-1")
    queues = list(JobQueue.objects.order_by("queue_name"))
    pause_queue("b")

    assert press(operator, "pause_queues", *queues) == ["Paused: a, c, d", "Already paused: b"]
    assert set(holders().values()) == {PAUSED}
    entries = LogEntry.objects.order_by("pk").values_list("object_repr", "change_message")
    assert list(entries) == [(name, "Paused.") for name in "acd"]

    LogEntry.objects.all().delete()
    told = press(operator, "resume_queues", *queues[1:])
    assert told == [
        "Resumed: b, c",
        "Not resumed, since a job that was taken before the pause runs still:"
        f" d ({running}, worker-1)",
    ]
    assert holders() == {"a": PAUSED, "b": None, "c": None, "d": PAUSED}
    entries = LogEntry.objects.order_by("pk").values_list("object_repr", "change_message")
    assert list(entries) == [(name, "Resumed.") for name in "bc"]


def test_every_page_tells_that_it_is_paused(operator: Client, add_job: AddJob) -> None:
    job = add_job(queue="lane")
    pause_queue("lane")
    queue = JobQueue.objects.get()
    for url in (reverse(LIST), reverse(LIST.replace("changelist", "change"), args=[queue.pk])):
        shown = operator.get(url).content.decode()
        assert "paused" in shown
        assert PAUSED not in shown
        assert "9999" not in shown
    assert "Its named queue “lane” is paused" in page_of(operator, job)
    # Nobody is to unlock it as if it were a worker's.
    locked = operator.get(reverse("admin:graphile_worker_lockedqueue_changelist"))
    assert "lane" not in locked.content.decode()
    url = reverse("admin:graphile_worker_lockedqueue_unlock")
    for _ in range(2):
        answer: Any = operator.post(url, {"worker": PAUSED, "sure": "yes"}, follow=True)
        assert [str(message) for message in answer.context["messages"]] == [
            "There is no such worker."
        ]
    assert holders() == {"lane": PAUSED}


def test_who_may_only_look_has_no_such_action(log_in: LogIn, add_job: AddJob) -> None:
    viewer = log_in("view_jobqueue")
    add_job(queue="lane")
    queue = JobQueue.objects.get()
    shown = viewer.get(reverse(LIST)).content.decode()
    assert "pause_queues" not in shown
    press(viewer, "pause_queues", queue)
    assert holders() == {"lane": None}
    assert not LogEntry.objects.exists()
