"""A job's page tells what became of its attempts and of its key, and no secret."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from django_graphile_worker import redaction
from django_graphile_worker.admin import job_page
from tests.doors.admin.conftest import AddRow, LogIn
from tests.doors.admin.job_pages import hold_queue, page_of
from tests.doors.conftest import AddJob

pytestmark = pytest.mark.django_db

LIST = "admin:graphile_worker_job_changelist"
LOCKED = {"locked_at": "now() - interval '1 hour'", "locked_by": "'django:w:1'", "attempts": "1"}
EVIL = "\"'><img src=x onerror=alert(1)></script>{{ 7 }}"
MOST_QUERIES = 20

AddWorker = Callable[..., None]


@pytest.fixture
def viewer(log_in: LogIn) -> Client:
    return log_in("view_job")


@pytest.fixture
def root(client: Client) -> Client:
    client.force_login(User.objects.create_superuser("root"))
    return client


# What became of it


def test_supersedings_lead_both_ways(root: Client, add_job: AddJob, add_row: AddRow) -> None:
    old = add_job(**LOCKED)
    new = add_job(key=f"'{EVIL}'".replace("\"'>", "\"''>"))
    for successor, state in ((new, "locked"), (2**40, "failed")):
        add_row(
            "django_key_conflicts",
            key=EVIL,
            mode="replace",
            superseded_job_id=old,
            superseded_state=state,
            superseded_attempts=1,
            superseded_max_attempts=25,
            successor_job_id=successor,
        )
    page = page_of(root, old)
    assert "was superseded" in page
    assert f'/{new}/change/">{new}</a>' in page
    assert f"{2**40} (gone)" in page
    assert f"{reverse('admin:graphile_worker_keyconflict_key')}?key={quote(EVIL[:2], safe='')}" in (
        page
    )
    assert f"Job {2**40} has taken over its key" in page
    page = page_of(root, new)
    assert "is the successor" in page
    assert f'/{old}/change/">{old}</a>' in page


def test_failed_attempts_are_listed(
    root: Client, add_job: AddJob, add_row: AddRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_page, "ATTEMPTS", 2)
    monkeypatch.setattr(job_page, "ERROR_SHOWN", 100)
    pk, other = add_job(attempts="3"), add_job(attempts="3")
    assert "No failed attempt is on record" in page_of(root, pk)
    for attempt in (1, 2, 3):
        add_row(
            "django_job_errors",
            job_id=pk,
            task_identifier="print",
            attempt=attempt,
            max_attempts=25,
            error=f"error {attempt}: {EVIL}" + "x" * 1000,
            worker_id="django:w:1",
        )
    page = page_of(root, pk)
    assert page.index("error 3") < page.index("error 2")
    assert "error 1" not in page
    assert "x" * 200 not in page
    assert f"{reverse('admin:graphile_worker_joberror_changelist')}?q={pk}" in page
    assert "error 3" not in page_of(root, other)


def test_history_and_conflicts_are_for_those_who_may_see_them(
    viewer: Client, add_job: AddJob, add_row: AddRow
) -> None:
    pk = add_job(**LOCKED)
    add_row(
        "django_job_errors",
        job_id=pk,
        task_identifier="print",
        attempt=1,
        max_attempts=25,
        error="it broke",
    )
    page = page_of(viewer, pk)
    assert "it broke" not in page
    assert "Failed attempts" not in page
    for model in ("task", "worker", "lockedjob", "keyconflict", "jobqueue", "joberror"):
        assert f"/graphile_worker/{model}/" not in page


def test_a_page_takes_few_queries(
    root: Client,
    add_job: AddJob,
    schema: str,
    add_worker: AddWorker,
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    add_worker("django:w:1")
    held = add_job(queue="q", key="'k'", **LOCKED)
    waiting = add_job(queue="q")
    hold_queue(schema, "q", "django:w:1")
    free = add_job()
    for pk in (held, waiting, free):
        with django_assert_max_num_queries(MOST_QUERIES):
            page_of(root, pk)


# Payloads


@pytest.fixture
def reader(log_in: LogIn) -> Client:
    return log_in("view_job", "view_payload")


def test_secrets_in_a_payload_are_masked(reader: Client, add_job: AddJob) -> None:
    pk = add_job(payload="""'{"to": "ada", "smtp": {"Password": "hunter2"}}'""")
    page = page_of(reader, pk)
    assert "hunter2" not in page
    assert f'"Password": "{redaction.MASK}"' in page
    assert '"to": "ada"' in page


@pytest.mark.parametrize(
    "payload",
    ["[" * 5000 + '{"password": "hunter2"}' + "]" * 5000, '"' + "hunter2" * 200_000 + '"'],
    ids=["deep", "long"],
)
def test_a_payload_that_cannot_be_looked_through_is_not_shown(
    reader: Client, add_job: AddJob, payload: str, settings: LazySettings
) -> None:
    pk = add_job(payload=f"'{payload}'")
    page = page_of(reader, pk)
    assert "nothing of it is shown" in page
    assert "hunter2" not in page
    # Unless nothing is to be hidden: then as it is stored, and cut.
    settings.GRAPHILE_WORKER = {**settings.GRAPHILE_WORKER, "REDACT": []}
    page = page_of(reader, pk)
    assert payload[:20_000] + "…" in page or payload in page
    assert payload[:20_001] not in page or len(payload) <= 20_000


@pytest.mark.parametrize("payload", ["1e400", '"\\ud800\\u0000"', "1" * 10_000, "null", '"ä"'])
def test_odd_payloads_are_shown_as_they_are(reader: Client, add_job: AddJob, payload: str) -> None:
    assert f">{payload}</pre>" in page_of(reader, add_job(payload=f"'{payload}'"))


def redact_more(payload: Any, task_identifier: str) -> Any:
    return {"only": task_identifier}


def test_a_project_decides_what_is_shown(
    reader: Client, add_job: AddJob, settings: LazySettings
) -> None:
    path = f"{__name__}.redact_more"
    settings.GRAPHILE_WORKER = {**settings.GRAPHILE_WORKER, "REDACT": path}
    page = page_of(reader, add_job(task="send", payload="""'{"to": "ada"}'"""))
    assert '"only": "send"' in page
    assert "ada" not in page.partition("graphile-worker-text")[2]


def test_whoever_may_act_may_not_read_for_that(log_in: LogIn, add_job: AddJob) -> None:
    client = log_in("view_job", "act_on_job", "unlock_worker")
    pk = add_job(payload="""'{"to": "ada@b"}'""", key="'k'")
    pages = [page_of(client, pk), client.get(reverse(LIST)).content.decode()]
    for verb in ("fail", "reschedule", "complete"):
        url = reverse("admin:graphile_worker_job_act", args=[verb])
        pages.append(client.post(url, {"jobs": str(pk)}).content.decode())
    assert not [page for page in pages if "ada@b" in page]
    user = User.objects.get()
    user.user_permissions.add(Permission.objects.get(codename="view_payload"))
    assert "ada@b" in page_of(client, pk)
