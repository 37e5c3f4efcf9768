"""Acting on jobs: the page that asks, the way back, bounds, forms, and what happens meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import Permission
from django.db import connection, connections
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse
from psycopg import sql

from django_graphile_worker.admin import acting, actions
from django_graphile_worker.models import Job
from tests import guards
from tests.crawling import Document
from tests.doors.admin.conftest import AddRow
from tests.doors.admin.job_acts import (
    FORMS,
    LATER,
    LIST,
    LOCKED,
    VERBS,
    Mixed,
    act_url,
    choose,
    logged,
    rows,
    said,
    send,
)
from tests.doors.conftest import AddJob
from tests.waiting import eventually

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "run_now"])
def test_the_page_asks_before_and_its_button_does_it(
    actor: Client, mixed: Mixed, verb: str
) -> None:
    before = rows()
    page = choose(actor, verb, mixed.ids, "?state=failed")
    assert page.status_code == 200
    assert rows() == before
    text = page.content.decode()
    assert "7 jobs are chosen." in text
    assert "2 of them are held by workers and will be left alone." in text
    assert "1 of them is gone." in text
    (form,) = [form for form in Document(text).forms if form.action == act_url(verb)]
    fields = dict(form.fields) | FORMS.get(verb, {})
    done = actor.post(form.action, fields)
    assert done.status_code == 302
    assert done.headers["Location"] == f"{reverse(LIST)}?state=failed"
    assert rows() != before


def test_run_now_is_done_from_the_list_at_once(actor: Client, mixed: Mixed) -> None:
    response = choose(actor, "run_now", mixed.ids, "?state=scheduled&q=print")
    assert response.status_code == 302
    assert response.headers["Location"] == f"{reverse(LIST)}?state=scheduled&q=print"
    # All that were chosen, also those that the list, asked anew, would not have.
    assert set(logged()) == {str(pk) for pk in (mixed.failed, mixed.scheduled, mixed.taken_over)}


def test_a_jobs_own_page_acts_and_comes_back(actor: Client, add_job: AddJob) -> None:
    pk = add_job(run_at=LATER)
    url = reverse("admin:graphile_worker_job_change", args=[pk])
    forms = Document(actor.get(url).content.decode()).forms
    verbs = {form.action for form in forms if "/act/" in form.action}
    assert verbs == {act_url(verb) for verb in VERBS if verb != "remove_by_key"}  # it has no key
    (form,) = [form for form in forms if form.action == act_url("run_now")]
    response = actor.post(form.action, dict(form.fields))
    assert response.headers["Location"] == url
    assert Job.objects.due().filter(pk=pk).exists()
    response = send(actor, "complete", [pk], back="job")
    assert response.headers["Location"] == reverse(LIST)
    assert actor.get(response.headers["Location"]).status_code == 200


@pytest.mark.parametrize(
    "back", ["//evil.example", "https://evil.example", "a=b\r\nX: y", "job/../../", "?"]
)
def test_one_is_sent_nowhere_else(actor: Client, add_job: AddJob, back: str) -> None:
    response = send(actor, "complete", [add_job()], back=back)
    assert response.headers["Location"].partition("?")[0] == reverse(LIST)


def test_all_that_match_are_chosen_up_to_a_bound(
    actor: Client, add_job: AddJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acting, "MOST", 3)
    failed = [add_job(task="send", attempts="25") for _ in range(4)]
    other = add_job(task="other", attempts="25")
    add_job(task="send", **LOCKED)
    query = "?state=failed&task=send"
    (form,) = [
        form
        for form in Document(actor.get(reverse(LIST) + query).content.decode()).forms
        if "/act/run_now/" in form.action
    ]
    (fields,) = form.requests()
    page = actor.post(form.action, dict(fields)).content.decode()
    assert "3 jobs are chosen." in page
    assert "More match; these are the first 3" in page
    assert not Job.objects.due().exists()
    (confirm,) = [form for form in Document(page).forms if form.action == act_url("run_now")]
    done = actor.post(confirm.action, dict(confirm.fields))
    assert done.headers["Location"] == reverse(LIST) + query
    assert list(Job.objects.due().order_by("pk").values_list("pk", flat=True)) == failed[1:]
    assert not Job.objects.due().filter(pk=other).exists()


def test_one_action_changes_a_bounded_number(
    actor: Client, add_job: AddJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "MOST", 2)
    pks = [add_job() for _ in range(3)]
    send(actor, "complete", pks)
    assert list(Job.objects.values_list("pk", flat=True)) == pks[2:]


def test_a_thousand_can_be_sent_in_one_form(actor: Client, add_job: AddJob) -> None:
    pk = add_job()
    response = send(actor, "complete", [*range(2**40, 2**40 + 999), pk])
    assert response.status_code == 302
    assert not Job.objects.exists()
    assert "999 jobs are gone" in " ".join(said(response))


def test_ids_that_are_none_are_passed_over(actor: Client, add_job: AddJob) -> None:
    pk = add_job()
    response = actor.post(
        act_url("complete"), {"jobs": f"x,,-1,{2**70},\0,{pk},{pk}", "sure": "yes"}
    )
    assert response.status_code == 302
    assert not Job.objects.exists()
    assert actor.post(act_url("complete"), {"jobs": "x", "sure": "yes"}).status_code == 302
    assert "No job is chosen" in actor.post(act_url("fail"), {"jobs": ""}).content.decode()


@pytest.mark.parametrize(
    "fields",
    [
        {"priority": ""},
        {"priority": "40000"},
        {"attempts": "-1"},
        {"max_attempts": "0"},
        {"run_at": "tomorrow"},
        {"run_at": "0001-01-01T00:00"},
        {"priority": "1", "attempts": "x"},
    ],
    ids=str,
)
def test_a_form_that_is_wrong_comes_back(
    actor: Client, add_job: AddJob, fields: dict[str, str], settings: LazySettings
) -> None:
    settings.TIME_ZONE = "Asia/Tokyo"  # the first of all days is before the year 1 in UTC
    pk = add_job()
    before = rows()
    response = send(actor, "reschedule", [pk], **{"priority": "", **fields})
    assert response.status_code == 200
    assert "errorlist" in response.content.decode()
    assert f'name="jobs" value="{pk}"' in response.content.decode()
    assert rows() == before


def test_a_job_is_rescheduled_to_all_that_was_filled_in(
    actor: Client, add_job: AddJob, settings: LazySettings
) -> None:
    settings.TIME_ZONE = "Europe/Berlin"
    pk = add_job(attempts="25")
    send(
        actor,
        "reschedule",
        [pk],
        run_at="2030-07-01T12:00:30",
        priority="-3",
        attempts="1",
        max_attempts="4",
    )
    job = Job.objects.get()
    assert job.run_at.isoformat() == "2030-07-01T10:00:30+00:00"
    assert (job.priority, job.attempts, job.max_attempts) == (-3, 1, 4)


def test_a_job_that_is_parked_for_ever_can_be_run(actor: Client, add_job: AddJob) -> None:
    pk = add_job(run_at="'infinity'")
    send(actor, "run_now", [pk])
    assert Job.objects.filter(pk=pk, run_at__gt=Now() - timedelta(days=1)).count() == 1
    assert Job.objects.due().count() == 1


def test_ids_beyond_32_bits_are_acted_on(actor: Client, add_job: AddJob, add_row: AddRow) -> None:
    task = Job.objects.filter(pk=add_job()).values_list("task_id", flat=True).get()
    add_row("_private_jobs", id=2**63 - 1, task_id=task)
    send(actor, "complete", [2**63 - 1])
    assert Job.objects.count() == 1
    assert set(logged()) == {str(2**63 - 1)}


@contextmanager
def atomic_requests() -> Iterator[None]:
    before = connection.settings_dict["ATOMIC_REQUESTS"]
    connection.settings_dict["ATOMIC_REQUESTS"] = True
    try:
        yield
    finally:
        connection.settings_dict["ATOMIC_REQUESTS"] = before


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("verb", VERBS)
def test_a_request_may_be_one_transaction(
    actor: Client, add_job: AddJob, schema: str, verb: str
) -> None:
    pk = add_job(key="'k'", run_at=LATER)
    with atomic_requests():
        assert actor.get(reverse(LIST)).status_code == 200
        assert actor.get(f"{reverse(LIST)}{pk}/change/").status_code == 200
        assert send(actor, verb, [pk]).status_code == 302
    assert set(logged()) == {str(pk)}


@pytest.mark.django_db(transaction=True)
def test_one_that_is_taken_meanwhile_is_left_alone(
    actor: Client, add_job: AddJob, schema: str
) -> None:
    """A worker is just taking the job: the action waits for it, and looks anew."""
    pk = add_job()
    take = sql.SQL("update {} set locked_at = now(), locked_by = 'w', attempts = 1").format(
        sql.Identifier(schema, "_private_jobs")
    )

    def act() -> str:
        try:
            return " ".join(said(send(actor, "complete", [pk])))
        finally:
            connections.close_all()

    with guards.observe() as worker, guards.observe() as observer, ThreadPoolExecutor(1) as pool:
        worker.execute("begin")
        worker.execute(take)
        acted = pool.submit(act)

        def waits() -> None:
            blocked = "select from pg_stat_activity where %s = any (pg_blocking_pids(pid))"
            assert observer.execute(blocked, [worker.info.backend_pid]).fetchone() is not None

        try:
            eventually(waits, within=30)
        finally:
            worker.execute("commit")
        assert "1 job was left alone" in acted.result(timeout=30)
    assert Job.objects.get().locked_by == "w"


def test_what_is_for_all_models_of_a_site_is_not_for_jobs(actor: Client, add_job: AddJob) -> None:
    """An export of whole rows would have the payloads, for whoever may look at jobs."""
    from django.contrib import admin

    def export(model_admin: Any, request: Any, queryset: Any) -> None:
        raise AssertionError

    add_job()
    admin.site.add_action(export)
    try:
        page = actor.get(reverse(LIST)).content.decode()
    finally:
        admin.site.disable_action("export")
    assert 'value="export"' not in page
    assert 'value="complete"' in page


def test_permission_is_named_as_the_model_has_it() -> None:
    app, _, codename = actions.ACT_PERMISSION.partition(".")
    assert Permission.objects.filter(content_type__app_label=app, codename=codename).exists()
