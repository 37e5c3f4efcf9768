"""Locked rows tell who holds them and whether it lives, and are unlocked worker by worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.contrib.messages import get_messages
from django.db import connection
from django.test import Client
from django.urls import reverse
from psycopg import sql

from django_graphile_worker.models import Job, JobQueue
from tests.doors.admin.conftest import LogIn
from tests.doors.conftest import AddJob

pytestmark = pytest.mark.django_db

AddWorker = Callable[..., None]

LONG_AGO = sql.SQL("now() - interval '1 hour'")
LIST = "admin:graphile_worker_lockedjob_changelist"
UNLOCK = "admin:graphile_worker_lockedjob_unlock"
EVIL = "\"'><img src=x onerror=alert(1)>"


@pytest.fixture
def unlocker(log_in: LogIn) -> Client:
    return log_in("view_lockedjob", "view_lockedqueue", "unlock_worker")


def held(add_job: AddJob, by: str, **values: str) -> int:
    literal = by.replace("'", "''")
    return add_job(locked_at="now()", locked_by=f"'{literal}'", attempts="1", **values)


def verdicts(client: Client) -> dict[str, str]:
    return {
        row.locked_by: row.verdict for row in client.get(reverse(LIST)).context["cl"].result_list
    }


def said(response: Any) -> str:
    return " ".join(str(message) for message in get_messages(response.wsgi_request))


def test_each_owner_has_its_verdict(
    unlocker: Client, add_job: AddJob, add_worker: AddWorker
) -> None:
    add_worker("django:alive")
    add_worker("django:stopping", stopping_at=sql.SQL("now()"))
    add_worker("django:stale", last_beat_at=LONG_AGO)
    add_worker("django:dead", dead_at=LONG_AGO)
    names = ["alive", "stopping", "stale", "dead", "gone"]
    for name in names:
        held(add_job, f"django:{name}")
    held(add_job, "pool-1")
    expected = {f"django:{name}": name for name in names} | {"pool-1": "foreign"}
    assert verdicts(unlocker) == expected
    page = unlocker.get(reverse(LIST)).content.decode()
    assert "declared dead" in page
    assert page.count(">Unlock</a>") == 6


@pytest.mark.parametrize(
    ("row", "must_be_sure"),
    [
        ({}, True),
        ({"stopping_at": LONG_AGO}, True),
        ({"last_beat_at": LONG_AGO}, False),
        ({"dead_at": LONG_AGO}, False),
        (None, False),
    ],
    ids=["alive", "stopping", "stale", "dead", "gone"],
)
def test_who_may_live_is_unlocked_after_a_second_confirmation(
    unlocker: Client,
    add_job: AddJob,
    add_worker: AddWorker,
    row: dict[str, Any] | None,
    must_be_sure: bool,
) -> None:
    if row is not None:
        add_worker("django:w", **row)
    pk = held(add_job, "django:w")
    page = unlocker.get(reverse(UNLOCK), {"worker": "django:w"}).content.decode()
    assert ('name="sure"' in page) == must_be_sure
    assert "1 job will run again" in page
    response = unlocker.post(reverse(UNLOCK), {"worker": "django:w"})
    if must_be_sure:
        assert response.status_code == 200
        assert "may be alive" in response.content.decode()
        assert Job.objects.locked().filter(pk=pk).exists()
        assert not LogEntry.objects.exists()
        response = unlocker.post(reverse(UNLOCK), {"worker": "django:w", "sure": "yes"})
    assert response.status_code == 302
    assert not Job.objects.locked().filter(pk=pk).exists()
    assert "1 job unlocked" in said(response)
    entry = LogEntry.objects.get()
    assert entry.object_id == "django:w"
    assert "1 job unlocked" in entry.get_change_message()


def test_jobs_and_queues_of_this_worker_alone_are_freed(
    unlocker: Client, add_job: AddJob, add_worker: AddWorker
) -> None:
    add_worker("django:w", dead_at=LONG_AGO)
    mine = held(add_job, "django:w")
    last = held(add_job, "django:w", max_attempts="1")
    others = held(add_job, "django:other")
    context = unlocker.get(reverse(UNLOCK), {"worker": "django:w"}).context
    assert (context["held"].again, context["held"].failed) == (1, 1)
    unlocker.post(reverse(UNLOCK), {"worker": "django:w"})
    assert set(Job.objects.locked().values_list("pk", flat=True)) == {others}
    assert set(Job.objects.due().values_list("pk", flat=True)) == {mine}
    assert set(Job.objects.failed().values_list("pk", flat=True)) == {last}


def test_a_named_queue_is_freed(
    unlocker: Client, add_row: Callable[..., None], add_worker: AddWorker
) -> None:
    add_worker("django:w", dead_at=LONG_AGO)
    add_row(
        "_private_job_queues",
        queue_name="q",
        locked_by="django:w",
        locked_at=sql.SQL("now() - interval '5 hours'"),
    )
    page = unlocker.get(reverse("admin:graphile_worker_lockedqueue_changelist"))
    assert "5:00:00" in page.content.decode()
    url = reverse("admin:graphile_worker_lockedqueue_unlock")
    assert "1 named queue will" in unlocker.get(url, {"worker": "django:w"}).content.decode()
    assert "1 named queue freed" in said(unlocker.post(url, {"worker": "django:w"}))
    assert JobQueue.objects.get().locked_by is None


def test_a_worker_that_holds_nothing_any_more_is_told_of(
    unlocker: Client, add_worker: AddWorker
) -> None:
    add_worker("django:w", dead_at=LONG_AGO)
    response = unlocker.post(reverse(UNLOCK), {"worker": "django:w"})
    assert "holds nothing any more" in said(response)
    assert not LogEntry.objects.exists()


def test_who_came_back_after_the_page_needs_the_second_confirmation(
    unlocker: Client, add_job: AddJob, add_worker: AddWorker, schema: str
) -> None:
    add_worker("django:w", last_beat_at=LONG_AGO)
    pk = held(add_job, "django:w")
    page = unlocker.get(reverse(UNLOCK), {"worker": "django:w"}).content.decode()
    assert 'name="sure"' not in page
    with connection.cursor() as cursor:
        cursor.execute(
            sql.SQL("update {} set last_beat_at = now()").format(
                sql.Identifier(schema, "django_workers")
            )
        )
    response = unlocker.post(reverse(UNLOCK), {"worker": "django:w"})
    assert 'name="sure"' in response.content.decode()
    assert Job.objects.locked().filter(pk=pk).exists()


@pytest.mark.parametrize(
    "permissions", [(), ("view_lockedjob",), ("unlock_worker",), ("view_lockedjob", "act_on_job")]
)
def test_both_permissions_are_needed(
    log_in: LogIn, add_job: AddJob, permissions: tuple[str, ...]
) -> None:
    pk = held(add_job, "django:w")
    client = log_in(*permissions)
    assert client.get(reverse(UNLOCK), {"worker": "django:w"}).status_code == 403
    assert client.post(reverse(UNLOCK), {"worker": "django:w"}).status_code == 403
    assert Job.objects.locked().filter(pk=pk).exists()
    if "view_lockedjob" in permissions:
        assert ">Unlock</a>" not in client.get(reverse(LIST)).content.decode()


def test_a_forged_request_is_refused(add_job: AddJob) -> None:
    pk = held(add_job, "django:w")
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.create_superuser("root"))
    assert client.post(reverse(UNLOCK), {"worker": "django:w"}).status_code == 403
    assert Job.objects.locked().filter(pk=pk).exists()


def test_names_are_escaped_and_odd_ones_lead_back(unlocker: Client, add_job: AddJob) -> None:
    held(add_job, EVIL)
    for page in (
        unlocker.get(reverse(LIST)),
        unlocker.get(reverse(UNLOCK), {"worker": EVIL}),
        unlocker.post(reverse(UNLOCK), {"worker": EVIL, "sure": "yes"}, follow=True),
    ):
        assert page.status_code == 200
        assert "<img src=x" not in page.content.decode()
    assert not Job.objects.locked().exists()
    for odd in ("", "x" * 5000, "a\0b"):
        assert unlocker.get(reverse(UNLOCK), {"worker": odd}).status_code == 302
