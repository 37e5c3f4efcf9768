"""Actions on jobs: what becomes of each that was chosen, who may, and what is written down."""

from __future__ import annotations

import pytest
from django.contrib.admin.models import CHANGE, DELETION, LogEntry
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from django_graphile_worker.models import Job
from tests.crawling import Document
from tests.doors.admin.conftest import LogIn
from tests.doors.admin.job_acts import (
    FORMS,
    LATER,
    LIST,
    VERBS,
    Mixed,
    act_url,
    choose,
    logged,
    rows,
    said,
    send,
    stand,
)
from tests.doors.conftest import AddJob

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("verb", VERBS)
def test_each_of_a_mixed_selection_has_its_outcome(actor: Client, mixed: Mixed, verb: str) -> None:
    held = [stand("running", mixed), stand("stale", mixed)]
    response = send(actor, verb, mixed.ids)
    assert response.status_code == 302
    # Locked rows are as they were, those too that have been locked for long.
    assert [stand("running", mixed), stand("stale", mixed)] == held
    messages = said(response)
    assert f"2 jobs were left alone, since workers hold them. ({mixed.running}, {mixed.stale})" in (
        messages
    )
    assert f"1 job is gone: it has ended, or somebody has removed it. ({mixed.gone})" in messages
    free = {name: stand(name, mixed) for name in ("failed", "scheduled", "ready", "taken_over")}
    done = set(free)
    if verb == "run_now":
        for name in ("failed", "scheduled", "taken_over"):
            assert Job.objects.due().filter(pk=getattr(mixed, name)).exists(), name
        assert free["failed"] is not None
        assert free["failed"]["attempts"] == 0
        done -= {"ready"}
        assert f"1 job was so already and was left as it is. ({mixed.ready})" in messages
    elif verb == "reschedule":
        assert {row["priority"] for row in free.values() if row} == {7}
    elif verb == "fail":
        assert {row["last_error"] for row in free.values() if row} == {"no use"}
        assert Job.objects.failed().count() == 4
    elif verb == "complete":
        assert list(free.values()) == [None] * 4
    else:
        done -= {"ready", "taken_over"}
        assert [name for name, row in free.items() if row is None] == ["failed", "scheduled"]
        assert f"2 jobs have no key and were left alone. ({mixed.ready}, {mixed.taken_over})" in (
            messages
        )
    assert set(logged()) == {str(getattr(mixed, name)) for name in done}
    label = verb.replace("_", " ").capitalize()
    assert any(message.startswith(f"{label}: {len(done)} job") for message in messages)


def test_one_that_is_due_keeps_its_place(actor: Client, mixed: Mixed) -> None:
    before = stand("ready", mixed)
    send(actor, "run_now", [mixed.ready])
    assert stand("ready", mixed) == before
    assert logged() == {}


def test_one_with_attempts_left_keeps_their_count(actor: Client, add_job: AddJob) -> None:
    pk = add_job(run_at=LATER, attempts="3")
    send(actor, "run_now", [pk])
    assert Job.objects.due().get().attempts == 3


@pytest.mark.parametrize("verb", VERBS)
def test_sending_twice_does_no_harm(actor: Client, mixed: Mixed, verb: str) -> None:
    send(actor, verb, mixed.ids)
    once = [{**row, "updated_at": None, "run_at": None} for row in rows()]
    response = send(actor, verb, mixed.ids)
    assert response.status_code == 302
    assert [{**row, "updated_at": None, "run_at": None} for row in rows()] == once


@pytest.mark.parametrize("verb", VERBS)
def test_what_was_done_is_written_down(actor: Client, add_job: AddJob, verb: str) -> None:
    pks = [add_job(key=f"'k{number}'", run_at=LATER) for number in range(3)]
    send(actor, verb, pks)
    entries = LogEntry.objects.all()
    assert {str(entry.object_id) for entry in entries} == {str(pk) for pk in pks}
    assert {entry.user for entry in entries} == {User.objects.get()}
    flag = DELETION if verb in ("complete", "remove_by_key") else CHANGE
    assert {entry.action_flag for entry in entries} == {flag}
    for name, value in FORMS.get(verb, {}).items():
        assert {f"{name}: {value}" in entry.change_message for entry in entries} == {True}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    "permissions",
    [("view_job",), ("act_on_job",), ("view_job", "view_payload", "unlock_worker"), ()],
    ids=lambda permissions: "+".join(permissions) or "none",
)
def test_who_may_not_act_changes_nothing(
    log_in: LogIn, mixed: Mixed, verb: str, permissions: tuple[str, ...]
) -> None:
    user = log_in(*permissions)
    before = rows()
    assert send(user, verb, mixed.ids).status_code == 403
    assert user.post(act_url(verb), {"jobs": str(mixed.ready)}).status_code == 403
    assert user.post(act_url(verb) + "?state=failed", {"matching": "yes"}).status_code == 403
    assert choose(user, verb, mixed.ids).status_code == 403
    assert rows() == before
    assert logged() == {}


def test_who_may_not_act_is_offered_nothing(log_in: LogIn, mixed: Mixed) -> None:
    user = log_in("view_job")
    pages = [
        user.get(reverse(LIST) + "?state=failed"),
        user.get(reverse("admin:graphile_worker_job_change", args=[mixed.failed])),
    ]
    for page in pages:
        forms = Document(page.content.decode()).forms
        assert [form for form in forms if "/act/" in form.action] == []
        assert [form for form in forms if "action" in form.choices] == []


def test_without_a_token_nothing_is_done(mixed: Mixed) -> None:
    root = Client(enforce_csrf_checks=True)
    root.force_login(User.objects.create_superuser("root"))
    before = rows()
    assert send(root, "complete", mixed.ids).status_code == 403
    assert rows() == before


def test_looking_does_nothing(actor: Client, mixed: Mixed) -> None:
    before = rows()
    for verb in VERBS:
        assert actor.get(f"{act_url(verb)}?jobs={mixed.ready}&sure=yes").status_code == 405
    assert actor.post(act_url("unlock"), {"jobs": mixed.ready}).status_code == 400
    assert rows() == before
