"""The list of jobs by state, task and named queue: what is in it, and how much of it is read."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse
from psycopg import sql
from pytest_django import DjangoAssertNumQueries

from django_graphile_worker.admin import job_lists
from django_graphile_worker.admin.base import CappedPaginator
from django_graphile_worker.models import Job
from tests.crawling import Document
from tests.doors.admin.conftest import LogIn
from tests.doors.conftest import AddJob

pytestmark = pytest.mark.django_db

LIST = "admin:graphile_worker_job_changelist"
LOCKED = {"locked_at": "now()", "locked_by": "'w'", "attempts": "1"}
LATER = "now() + interval '1 hour'"
STATES: dict[str, dict[str, str]] = {
    "ready": {},
    "scheduled": {"run_at": LATER},
    "retrying": {"run_at": LATER, "attempts": "2"},
    "running": LOCKED,
    "failed": {"attempts": "25"},
}
MOST_QUERIES = 20


@pytest.fixture
def viewer(log_in: LogIn) -> Client:
    return log_in("view_job")


@pytest.fixture
def forget(schema: str) -> Callable[[str], None]:
    """Delete all rows of a table of names, as somebody may do by hand."""

    def forget(table: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(sql.SQL("delete from {}").format(sql.Identifier(schema, table)))

    return forget


def listed(client: Client, **query: str) -> list[int]:
    response: Any = client.get(reverse(LIST), query)
    assert response.status_code == 200
    return [job.pk for job in response.context["cl"].result_list]


def tabs(client: Client, **query: str) -> dict[str, str]:
    page = client.get(reverse(LIST), query).content.decode()
    (found,) = re.findall(r'<nav class="graphile-worker-tabs".*?</nav>', page, re.DOTALL)
    words = [re.sub(r"<[^>]*>", "", item).split() for item in found.split("<li>")[1:]]
    return {word[0]: word[1] if len(word) > 1 else "" for word in words}


def test_each_state_has_a_tab_with_a_count(viewer: Client, add_job: AddJob) -> None:
    jobs = {
        state: [add_job(**values) for _ in range(number)]
        for number, (state, values) in enumerate(STATES.items(), start=1)
    }
    assert tabs(viewer) == {
        "all": "15",
        "ready": "1",
        "scheduled": "2",
        "retrying": "3",
        "running": "4",
        "failed": "5",
    }
    for state, pks in jobs.items():
        assert sorted(listed(viewer, state=state)) == pks
    page = viewer.get(reverse(LIST), {"state": "failed"}).content.decode()
    assert re.search(r'<a href="\?state=failed" aria-current="page">failed', page)
    # Beside a search they are not counted.
    assert set(tabs(viewer, q="print").values()) == {""}


def test_counts_stop(viewer: Client, add_job: AddJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CappedPaginator, "cap", 3)
    monkeypatch.setattr(job_lists, "SAMPLE", 3)
    for values in STATES.values():
        for _ in range(4):
            add_job(**values)
    found = tabs(viewer)
    assert {found[state] for state in ("all", "ready", "running", "failed")} == {"3+"}
    # Of the eight, the first four were looked at to tell one from the other.
    assert found["scheduled"].endswith("+")
    assert found["retrying"].endswith("+")
    assert job_lists.count_text(12_345) == "3+"
    monkeypatch.undo()
    assert job_lists.count_text(10_001) == "10,000+"
    assert job_lists.count_text(9_999) == "9,999"


def test_a_state_is_in_the_order_that_matters(viewer: Client, add_job: AddJob) -> None:
    urgent = add_job(priority="-1")
    old = add_job(run_at="now() - interval '2 hours'")
    young = add_job(run_at="now() - interval '1 hour'")
    assert listed(viewer, state="ready") == [urgent, old, young]
    held = add_job(**LOCKED)
    longer = add_job(**LOCKED | {"locked_at": "now() - interval '1 hour'"})
    assert listed(viewer, state="running") == [longer, held]
    assert listed(viewer) == [longer, held, young, old, urgent]


@pytest.mark.parametrize("queue", [None, "letters"])
@pytest.mark.parametrize("state", STATES)
def test_a_task_is_found_in_every_state(
    viewer: Client, add_job: AddJob, state: str, queue: str | None
) -> None:
    pk = add_job(task="send", queue=queue, **STATES[state])
    add_job(task="send_later", queue=queue, **STATES[state])
    assert listed(viewer, task="send") == [pk]
    assert listed(viewer, task="send", state=state) == [pk]
    for other in set(STATES) - {state}:
        assert listed(viewer, task="send", state=other) == []
    assert listed(viewer, q="send", task="send") == [pk]
    assert listed(viewer, q="send_", task="send") == []
    assert listed(viewer, task="sen") == []
    assert listed(viewer, task="a\0b") == []


@pytest.mark.parametrize("state", STATES)
def test_a_named_queue_is_found_in_every_state(viewer: Client, add_job: AddJob, state: str) -> None:
    pk = add_job(queue="letters", **STATES[state])
    add_job(queue="other", **STATES[state])
    add_job(**STATES[state])
    assert listed(viewer, queue="letters") == [pk]
    assert listed(viewer, queue="letters", state=state, task="print") == [pk]
    assert listed(viewer, queue="letters", task="other") == []
    assert listed(viewer, queue="nowhere") == []
    assert listed(viewer, queue="", task="", state=state).index(pk) >= 0


def test_old_ones_are_found_where_an_index_leads_to_them(
    viewer: Client, add_job: AddJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the newest two were the newest hundred thousand."""
    monkeypatch.setattr(job_lists, "LOOK", 2)
    old = {state: add_job(task="send", **values) for state, values in STATES.items()}
    queued = add_job(task="send", queue="q", key="'k'")
    newest = [add_job(task="send", queue="q") for _ in range(2)]
    assert listed(viewer, task="send") == sorted([*old.values(), *newest], reverse=True)
    assert listed(viewer, queue="q") == [*newest[::-1], queued]
    assert listed(viewer, q="k") == [queued]
    page = viewer.get(reverse(LIST), {"task": "send"}).content.decode()
    assert "beyond those the newest 2" in page
    assert "beyond those the newest" not in viewer.get(reverse(LIST)).content.decode()
    # Of the future, those that come first.
    monkeypatch.setattr(job_lists, "SAMPLE", 2)
    later = [add_job(run_at=f"now() + interval '{hours} hours'") for hours in (9, 2, 5)]
    scheduled = listed(viewer, state="scheduled")
    assert scheduled[:2] == [old["scheduled"], later[1]]
    assert later[0] not in scheduled


def test_more_failed_than_can_be_listed_are_listed_in_part(
    viewer: Client, add_job: AddJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CappedPaginator, "cap", 2)
    monkeypatch.setattr(job_lists, "LOOK", 1)
    failed = [add_job(attempts="25") for _ in range(5)]
    assert listed(viewer, state="failed")[0] == failed[-1]
    assert set(listed(viewer, state="failed")) <= set(failed)


def test_jobs_without_the_rows_of_their_names_are_listed(
    viewer: Client, add_job: AddJob, forget: Callable[[str], None]
) -> None:
    pk = add_job(queue="letters")
    forget("_private_tasks")
    forget("_private_job_queues")
    assert listed(viewer) == [pk]
    assert listed(viewer, state="ready") == [pk]
    assert listed(viewer, q=str(pk)) == [pk]
    assert listed(viewer, task="print") == []
    page = viewer.get(f"{reverse(LIST)}{pk}/change/").content.decode()
    assert "The row of its task is gone" in page


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ({}, "The queue is empty."),
        ({"state": "ready"}, "the workers have caught up"),
        ({"state": "scheduled"}, "No job is scheduled"),
        ({"state": "retrying"}, "No job waits to be tried again"),
        ({"state": "running"}, "No worker holds a job"),
        ({"state": "failed"}, "No job has failed for good"),
        ({"q": "x"}, "No job matches."),
        ({"task": "x"}, "No job matches."),
        ({"queue": "x", "state": "failed"}, "No job matches."),
    ],
    ids=str,
)
def test_an_empty_list_says_what_that_means(
    viewer: Client, query: dict[str, str], sentence: str
) -> None:
    assert sentence in viewer.get(reverse(LIST), query).content.decode()


def test_what_narrows_the_list_is_kept(viewer: Client, add_job: AddJob) -> None:
    add_job(task='a&b="', queue="q r")
    query = {"task": 'a&b="', "queue": "q r", "state": "ready", "p": "1"}
    document = Document(viewer.get(reverse(LIST), query).content.decode())
    (form,) = [form for form in document.forms if "task" in dict(form.fields)]
    assert dict(form.fields) == {"q": "", "task": 'a&b="', "queue": "q r", "state": "ready"}
    failed = [link for link in document.links if link.endswith("state=failed")]
    assert failed == ["?task=a%26b%3D%22&queue=q+r&state=failed"]
    assert viewer.get(reverse(LIST) + failed[0]).status_code == 200


def test_names_are_offered(viewer: Client, add_job: AddJob) -> None:
    add_job(task="<send>", queue="letters")
    page = viewer.get(reverse(LIST)).content.decode()
    assert '<option value="&lt;send&gt;"></option>' in page
    assert '<option value="letters"></option>' in page


@pytest.mark.parametrize(
    "query",
    [{}, *({"state": state} for state in STATES), {"q": "p", "task": "print", "queue": "q"}],
    ids=str,
)
def test_a_list_takes_few_queries_and_reads_no_payload(
    viewer: Client,
    add_job: AddJob,
    query: dict[str, str],
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    add_job(queue="q", **STATES[query.get("state", "ready")])
    with django_assert_max_num_queries(MOST_QUERIES) as queries:
        assert len(listed(viewer, **query)) == 1
    assert not [query for query in queries.captured_queries if '"payload"' in query["sql"]]


def test_times_beyond_pythons_years_bound_the_list_as_well(
    viewer: Client, add_job: AddJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_lists, "SAMPLE", 1)
    never = [add_job(run_at="'infinity'") for _ in range(2)]
    assert sorted(listed(viewer, state="scheduled")) == never
    assert Job.objects.count() == 2


def test_pages_link_to_those_that_one_may_see(log_in: LogIn) -> None:
    client = log_in("view_job", "view_worker")
    page = client.get(reverse(LIST)).content.decode()
    (found,) = re.findall(r'<nav class="graphile-worker-navigation".*?</nav>', page, re.DOTALL)
    assert Document(found).links == [
        reverse(LIST),
        reverse("admin:graphile_worker_worker_changelist"),
    ]
    assert found.count('aria-current="page"') == 1
