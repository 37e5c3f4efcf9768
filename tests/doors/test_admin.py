"""The admin shows the queue to who may see it, changes nothing, and costs the same at any size."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.urls import reverse
from psycopg import sql
from pytest_django import DjangoAssertNumQueries

from django_graphile_worker import enqueue
from django_graphile_worker.admin.base import CappedPaginator
from django_graphile_worker.models import Job, KeyConflict, LockedJob, LockedQueue
from tests.doors.admin.conftest import LogIn
from tests.doors.admin.conftest import log_in as log_in
from tests.doors.conftest import AddJob

pytestmark = pytest.mark.django_db

MODELS = [Job, KeyConflict, LockedJob, LockedQueue]

# A user is looked up, then the user's and the groups' permissions; the session; states are counted,
# names looked up.
FIXED_QUERIES = 20

SCRIPT = "<script>alert(1)</script>"
IMAGE = "\"'><img src=x onerror=alert(1)>"


@pytest.fixture
def everything(client: Client) -> Client:
    """Log in somebody who may do everything."""
    # Without a password: hashing one takes longer than the test.
    client.force_login(User.objects.create_superuser("root"))
    return client


@pytest.fixture
def add_conflict(schema: str) -> Callable[..., int]:
    def add(**values: Any) -> int:
        row: dict[str, Any] = {
            "key": "k",
            "mode": "replace",
            "superseded_job_id": 1,
            "superseded_task": "print",
            "superseded_state": "locked",
            "superseded_attempts": 1,
            "superseded_max_attempts": 25,
            "successor_job_id": 2,
            "successor_task": "print",
        } | values
        with connection.cursor() as cursor:
            cursor.execute(
                sql.SQL("insert into {} ({}) values ({}) returning id").format(
                    sql.Identifier(schema, "django_key_conflicts"),
                    sql.SQL(", ").join(map(sql.Identifier, row)),
                    sql.SQL(", ").join(sql.Placeholder(name) for name in row),
                ),
                row,
            )
            (pk,) = cursor.fetchone()
        return int(pk)

    return add


@pytest.fixture
def lock_queue(add_job: AddJob, schema: str) -> Callable[[str, str], None]:
    def lock(queue: str, worker: str) -> None:
        add_job(queue=queue)
        with connection.cursor() as cursor:
            cursor.execute(
                sql.SQL(
                    "update {} set locked_at = now(), locked_by = %s where queue_name = %s"
                ).format(sql.Identifier(schema, "_private_job_queues")),
                [worker, queue],
            )

    return lock


def url_of(model: type[Any], pk: object = None, **query: str) -> str:
    name = f"admin:graphile_worker_{model._meta.model_name}"
    found = reverse(f"{name}_changelist") if pk is None else reverse(f"{name}_change", args=[pk])
    return f"{found}?{urlencode(query)}" if query else found


def rows(response: Any) -> list[str]:
    """The rows of a list, each as the text that a person reads."""
    assert response.status_code == 200
    page = response.content.decode()
    bodies = re.findall(r"<tbody>(.*?)</tbody>", page, re.DOTALL)
    return [
        " | ".join(
            unescape(re.sub(r"<[^>]*>", "", cell)).strip()
            for kind, cell in re.findall(r"<t[hd]([^>]*)>(.*?)</t[hd]>", row, re.DOTALL)
            if "action-checkbox" not in kind
        )
        for body in bodies
        for row in re.findall(r"<tr[^>]*>(.*?)</tr>", body, re.DOTALL)
    ]


def ids(response: Any) -> list[int]:
    return [int(row.partition(" | ")[0]) for row in rows(response)]


def literal(text: str) -> str:
    """A value for `add_job`."""
    quoted: str = sql.Literal(text).as_string(None)
    return quoted.replace("%", "%%")


LOCKED = {"locked_at": "now()", "locked_by": "'w'", "attempts": "1"}


# What is shown


def test_the_state_of_a_job_is_told_and_can_be_asked_for(
    everything: Client, add_job: AddJob
) -> None:
    jobs = {
        add_job(): "ready",
        add_job(attempts="2"): "ready",
        add_job(run_at="now() + interval '1 hour'"): "scheduled",
        add_job(run_at="now() + interval '1 hour'", attempts="2"): "retrying",
        add_job(**LOCKED): "running",
        add_job(**LOCKED | {"attempts": "25"}): "running",
        add_job(attempts="25"): "failed",
        add_job(attempts="26", run_at="now() + interval '1 hour'"): "failed",
    }
    shown = dict(row.split(" | ")[:2] for row in rows(everything.get(url_of(Job))))
    assert shown == {str(pk): state for pk, state in jobs.items()}
    for state in set(jobs.values()):
        found = ids(everything.get(url_of(Job, state=state)))
        assert sorted(found) == sorted(pk for pk in jobs if jobs[pk] == state)
    assert len(ids(everything.get(url_of(Job, state="unheard of")))) == len(jobs)


def test_the_list_of_jobs_tells_the_rest(everything: Client, add_job: AddJob) -> None:
    pk = add_job(task="send", queue="letters", key="'letter-7'", priority="-5", **LOCKED)
    (row,) = rows(everything.get(url_of(Job)))
    cells = row.split(" | ")
    assert cells[:6] == [str(pk), "running", "send", "letters", "letter-7", "-5"]
    assert cells[7:] == ["1/25", "w"]


def test_a_job_that_was_enqueued_is_listed(everything: Client) -> None:
    job = enqueue("send_letter", {"to": "a@b"}, job_key="letter-7")
    assert ids(everything.get(url_of(Job))) == [job.id]
    page = everything.get(url_of(Job, job.id)).content.decode()
    assert "letter-7" in page
    assert "None" not in page
    assert unescape(page).count('{\n  "to": "a@b"\n}') == 1


def test_locked_rows_are_jobs_and_queues_that_are_held(
    everything: Client, add_job: AddJob, lock_queue: Callable[[str, str], None]
) -> None:
    add_job()
    add_job(attempts="25")
    later = add_job(**LOCKED)
    earlier = add_job(**LOCKED | {"locked_at": "now() - interval '5 hours'"})
    assert ids(everything.get(url_of(LockedJob))) == [earlier, later]
    add_job(queue="free")
    lock_queue("held", "w 7")
    (row,) = rows(everything.get(url_of(LockedQueue)))
    assert row.startswith("held | ")
    assert " | w 7 | foreign | " in row


def test_a_conflict_tells_both_jobs(everything: Client, add_conflict: Callable[..., int]) -> None:
    pk = add_conflict(
        key="letter-7",
        superseded_job_id=2**40,
        superseded_task="send",
        superseded_locked_by="w 7",
        successor_job_id=2**41,
        successor_task="send_later",
        outcome="completed",
    )
    (row,) = rows(everything.get(url_of(KeyConflict)))
    cells = row.split(" | ")
    assert cells[:2] == [str(pk), "letter-7"]
    assert cells[3:7] == [str(2**40), str(2**41), "locked", "completed"]
    assert cells[8:11] == ["send", "send_later", "w 7"]
    page = everything.get(url_of(KeyConflict, pk)).content.decode()
    assert "letter-7" in page


def test_a_real_superseding_is_listed(everything: Client, schema: str) -> None:
    first = enqueue("print", job_key="k")
    with connection.cursor() as cursor:
        cursor.execute(
            sql.SQL("update {} set locked_at = now(), locked_by = 'w', attempts = 1").format(
                sql.Identifier(schema, "_private_jobs")
            )
        )
    second = enqueue("print", job_key="k")
    # It stands among those that are still live, too.
    live, row = rows(everything.get(url_of(KeyConflict)))
    assert str(first.id) in live
    assert {str(first.id), str(second.id), "k", "locked", "w"} <= set(row.split(" | "))


@pytest.mark.parametrize(
    ("term", "found"),
    [
        ("letter-7", {"keyed"}),
        ("  letter-7 ", {"keyed"}),
        ("letter", set()),
        ("send", {"send", "send_later"}),
        ("send_l", {"send_later"}),
        ("a%", set()),
        ("{pk}", {"keyed"}),
        ("9223372036854775807", set()),
        ("9223372036854775808", set()),
        ("\N{ARABIC-INDIC DIGIT SEVEN}", set()),
        ("", {"keyed", "send", "send_later"}),
    ],
)
def test_jobs_are_found_by_id_key_and_task(
    everything: Client, add_job: AddJob, term: str, found: set[str]
) -> None:
    jobs = {
        "keyed": add_job(task="print", key="'letter-7'", payload="""'{"letter": "secret"}'"""),
        "send": add_job(task="send"),
        "send_later": add_job(task="send_later"),
    }
    term = term.format(pk=jobs["keyed"])
    assert set(ids(everything.get(url_of(Job, q=term)))) == {jobs[name] for name in found}


def test_locked_jobs_are_found_by_their_worker(everything: Client, add_job: AddJob) -> None:
    add_job(**LOCKED)
    pk = add_job(**LOCKED | {"locked_by": "'w 7'"})
    assert ids(everything.get(url_of(LockedJob, q="w 7"))) == [pk]


@pytest.mark.parametrize("term", ["letter-7", "send", "send_later", "77", "78"])
def test_conflicts_are_found_by_key_task_and_job(
    everything: Client, add_conflict: Callable[..., int], term: str
) -> None:
    add_conflict()
    pk = add_conflict(
        key="letter-7",
        superseded_task="send",
        successor_task="send_later",
        superseded_job_id=77,
        successor_job_id=78,
    )
    assert ids(everything.get(url_of(KeyConflict, q=term))) == [pk]


@pytest.mark.parametrize("term", ["held", "w 7"])
def test_locked_queues_are_found_by_name_and_worker(
    everything: Client, lock_queue: Callable[[str, str], None], term: str
) -> None:
    lock_queue("held", "w 7")
    lock_queue("other", "w 8")
    assert len(rows(everything.get(url_of(LockedQueue, q=term)))) == 1


@pytest.mark.parametrize("model", MODELS)
def test_a_search_for_what_text_cannot_hold_finds_nothing_and_says_so(
    everything: Client, model: type[Any]
) -> None:
    assert everything.get(url_of(model, q="a\0b")).status_code == 200


# Who may


@pytest.mark.parametrize("model", MODELS)
def test_each_list_asks_for_its_own_permission(
    log_in: LogIn, add_job: AddJob, model: type[Any]
) -> None:
    pk = add_job(queue="q", **LOCKED)
    own = f"view_{model._meta.model_name}"
    others = {f"view_{other._meta.model_name}" for other in MODELS} - {own}
    client = log_in(*others, "view_payload", "act_on_job", "unlock_worker")
    assert client.get(url_of(model)).status_code == 403
    assert client.get(url_of(model, pk)).status_code in (302, 403)
    assert url_of(model) not in client.get(reverse("admin:index")).content.decode()
    user = User.objects.get()
    user.user_permissions.set([Permission.objects.get(codename=own)])
    assert client.get(url_of(model)).status_code == 200
    assert url_of(model) in client.get(reverse("admin:index")).content.decode()


@pytest.mark.parametrize("model", MODELS)
def test_who_is_not_of_the_staff_sees_nothing(
    client: Client, add_job: AddJob, model: type[Any]
) -> None:
    for url in (url_of(model), url_of(model, 1)):
        assert client.get(url).status_code == 302
        assert client.get(url).headers["Location"].startswith(reverse("admin:login"))


@pytest.mark.parametrize("model", MODELS)
def test_not_even_a_superuser_can_change_anything(
    everything: Client,
    add_job: AddJob,
    add_conflict: Callable[..., int],
    lock_queue: Callable[[str, str], None],
    model: type[Any],
) -> None:
    add_job(**LOCKED)
    add_conflict()
    lock_queue("held", "w")
    pk = model.objects.filter(pk__in=admin_ids(everything, model)).values_list("pk", flat=True)[0]
    name = f"admin:graphile_worker_{model._meta.model_name}"
    before = list(model.objects.values())
    for url in (
        reverse(f"{name}_add"),
        reverse(f"{name}_delete", args=[pk]),
    ):
        assert everything.get(url).status_code == 403
        assert everything.post(url, {"post": "yes"}).status_code == 403
    assert everything.post(url_of(model, pk), {"key": "other", "_save": "1"}).status_code == 403
    acted = everything.post(
        url_of(model), {"action": "delete_selected", "_selected_action": [pk], "post": "yes"}
    )
    assert acted.status_code in (200, 302)
    assert list(model.objects.values()) == before
    page = everything.get(url_of(model)).content.decode()
    assert "delete_selected" not in page
    assert f"{url_of(model)}add/" not in page
    detail = everything.get(url_of(model, pk)).content.decode()
    assert 'name="_save"' not in detail
    assert "deletelink" not in detail


def admin_ids(client: Client, model: type[Any]) -> list[int]:
    """The ids of the rows that a list links to."""
    page = client.get(url_of(model)).content.decode()
    return [int(pk) for pk in re.findall(rf"{re.escape(url_of(model))}(\d+)/change/", page)]


SECRET = """'{"password": "hunter2", "to": "ada@b"}'"""


@pytest.mark.parametrize("model", [Job, LockedJob])
def test_a_payload_needs_its_permission(log_in: LogIn, add_job: AddJob, model: type[Any]) -> None:
    pk = add_job(payload=SECRET, **LOCKED)
    client = log_in(f"view_{model._meta.model_name}")
    page = client.get(url_of(model, pk)).content.decode()
    assert "running" in page
    assert "ada@b" not in page
    assert "payload" not in page.lower()
    user = User.objects.get()
    user.user_permissions.add(Permission.objects.get(codename="view_payload"))
    assert "ada@b" in client.get(url_of(model, pk)).content.decode()


@pytest.mark.parametrize("model", [Job, LockedJob])
def test_no_list_shows_or_reads_a_payload(
    everything: Client,
    add_job: AddJob,
    model: type[Any],
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    add_job(payload=SECRET, **LOCKED)
    with django_assert_max_num_queries(FIXED_QUERIES) as queries:
        page = everything.get(url_of(model, q="print")).content.decode()
    assert "ada@b" not in page
    assert queries.captured_queries
    assert not [query for query in queries.captured_queries if '"payload"' in query["sql"]]


def test_without_the_permission_a_page_does_not_read_the_payload(
    log_in: LogIn, add_job: AddJob, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    pk = add_job(payload=SECRET)
    client = log_in("view_job")
    with django_assert_max_num_queries(FIXED_QUERIES) as queries:
        client.get(url_of(Job, pk))
    assert queries.captured_queries
    assert not [query for query in queries.captured_queries if '"payload"' in query["sql"]]


@pytest.mark.parametrize(
    "lookup",
    ["payload__startswith", "payload__contains", "payload", "last_error", "task__identifier"],
)
def test_a_payload_cannot_be_guessed_through_the_address(
    log_in: LogIn, add_job: AddJob, lookup: str
) -> None:
    add_job(payload=SECRET)
    client = log_in("view_job")
    assert client.get(url_of(Job, **{lookup: "{"})).status_code == 400


def test_a_payload_cannot_be_sorted_by(log_in: LogIn, add_job: AddJob) -> None:
    first = add_job(payload="'1'")
    second = add_job(payload="'2'")
    client = log_in("view_job")
    for order in range(-9, 10):
        response: Any = client.get(url_of(Job, o=str(order)))
        assert ids(response) in ([second, first], [first, second])
        query = str(response.context["cl"].queryset.query)
        assert "payload" not in query.partition("ORDER BY")[2]


# At any size


@pytest.mark.parametrize("model", MODELS)
def test_a_page_takes_as_many_queries_for_one_row_as_for_many(
    log_in: LogIn,
    add_job: AddJob,
    add_conflict: Callable[..., int],
    lock_queue: Callable[[str, str], None],
    model: type[Any],
    django_assert_num_queries: DjangoAssertNumQueries,
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    def add(name: str) -> None:
        add_job(task=f"task {name}", queue=f"queue {name}", **LOCKED)
        add_conflict(key=name, superseded_task=name)
        lock_queue(f"held {name}", name)

    client = log_in(f"view_{model._meta.model_name}")
    add("0")
    client.get(url_of(model))  # content types are kept after the first time
    with django_assert_max_num_queries(FIXED_QUERIES) as queries:
        assert len(rows(client.get(url_of(model)))) >= 1
    for number in range(1, 24):  # still on one page: another is a query more
        add(str(number))
    with django_assert_num_queries(len(queries)):
        assert len(rows(client.get(url_of(model)))) >= 24


def test_a_page_of_a_job_takes_few_queries(
    log_in: LogIn, add_job: AddJob, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    pk = add_job(queue="q", **LOCKED)
    client = log_in("view_job", "view_payload")
    with django_assert_max_num_queries(FIXED_QUERIES):
        assert client.get(url_of(Job, pk)).status_code == 200


@pytest.fixture
def _small_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CappedPaginator, "cap", 60)


@pytest.mark.usefixtures("_small_cap")
def test_no_list_counts_beyond_its_cap(
    everything: Client,
    add_job: AddJob,
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    jobs = [add_job() for _ in range(60)]
    page = everything.get(url_of(Job)).content.decode()
    assert "60 jobs" in page
    assert "Only the first" not in page
    jobs += [add_job() for _ in range(5)]
    with django_assert_max_num_queries(FIXED_QUERIES) as queries:
        response = everything.get(url_of(Job))
    assert "Only the first 60 are counted" in response.content.decode()
    counts = [query["sql"] for query in queries.captured_queries if "COUNT(" in query["sql"]]
    assert len(counts) > 1
    assert all(re.search(r"LIMIT (61|20001)\b", count) for count in counts)
    newest = jobs[::-1]
    assert ids(response) == newest[:50]
    assert ids(everything.get(url_of(Job, p="2"))) == newest[50:60]
    assert everything.get(url_of(Job, p="3")).status_code == 302  # to where there is something
    # Neither by the address.
    for query in ({"all": ""}, {"_facets": "True"}):
        with django_assert_max_num_queries(FIXED_QUERIES) as queries:
            assert len(rows(everything.get(url_of(Job, **query)))) == 50
        counts = [query["sql"] for query in queries.captured_queries if "COUNT(" in query["sql"]]
        assert all(re.search(r"LIMIT (61|20001)\b", count) for count in counts)


# What others have stored


def test_all_that_is_shown_is_escaped(
    everything: Client,
    add_job: AddJob,
    add_conflict: Callable[..., int],
    lock_queue: Callable[[str, str], None],
) -> None:
    for evil in (SCRIPT, IMAGE, "javascript:alert(1)", "{{ 7 }}{% now %}&amp;"):
        text = literal(evil)
        add_job(
            task=evil,
            queue=evil,
            key=text,
            last_error=text,
            locked_by=text,
            locked_at="now()",
            payload=f"to_json({text}::text)",
            flags=f"jsonb_build_object({text}, true)",
        )
        lock_queue(f"{evil} held", evil)
        add_conflict(
            key=evil,
            mode=evil,
            superseded_task=evil,
            successor_task=evil,
            superseded_locked_by=evil,
        )
    pages = 0
    for model in MODELS:
        for url in (
            url_of(model),
            url_of(model, q=SCRIPT),
            url_of(model, q=IMAGE),
            *(url_of(model, pk) for pk in admin_ids(everything, model)),
            *(
                reverse(f"admin:graphile_worker_{model._meta.model_name}_history", args=[pk])
                for pk in admin_ids(everything, model)
            ),
        ):
            response = everything.get(url)
            assert response.status_code == 200
            page = response.content.decode()
            assert "<script>alert" not in page, url
            assert "<img src=x" not in page, url
            assert not re.search(r"""href\s*=\s*["']?javascript:""", page), url
            pages += 1
    assert pages > 30
    # The pages do show what they escape, once.
    first, *_others, last = sorted(job.pk for job in Job.objects.locked())
    detail = everything.get(url_of(Job, first)).content.decode()
    assert detail.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 7
    detail = everything.get(url_of(Job, last)).content.decode()
    assert detail.count("{{ 7 }}{% now %}&amp;amp;") >= 7


@pytest.mark.parametrize("run_at", ["infinity", "-infinity", "20000-01-01", "0044-03-15 BC"])
def test_times_beyond_pythons_years_are_shown(
    everything: Client, add_job: AddJob, run_at: str
) -> None:
    pk = add_job(run_at=f"'{run_at}'::timestamptz")
    assert ids(everything.get(url_of(Job))) == [pk]
    assert everything.get(url_of(Job, pk)).status_code == 200


def test_ids_beyond_32_bits_have_a_page(everything: Client, add_job: AddJob, schema: str) -> None:
    add_job()
    with connection.cursor() as cursor:
        cursor.execute(
            sql.SQL(
                "update {} set id = default where false; insert into {} (id, task_id)"
                " overriding system value select %s, task_id from {}"
            ).format(*[sql.Identifier(schema, "_private_jobs")] * 3),
            [2**63 - 1],
        )
    assert ids(everything.get(url_of(Job)))[0] == 2**63 - 1
    assert ids(everything.get(url_of(Job, q=str(2**63 - 1)))) == [2**63 - 1]
    assert everything.get(url_of(Job, 2**63 - 1)).status_code == 200


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("pk", ["12345", "9" * 30, "-1", "x", "_5F", SCRIPT])
def test_what_is_not_there_leads_back(everything: Client, model: type[Any], pk: str) -> None:
    response = everything.get(url_of(model, 1).replace("1", quote(pk, safe="")))
    assert response.status_code in (302, 404)


def test_a_job_that_ended_meanwhile_leads_back(everything: Client, add_job: AddJob) -> None:
    pk = add_job()
    assert everything.get(url_of(LockedJob, pk), follow=True).redirect_chain


def test_every_label_can_be_translated() -> None:
    from django.utils.functional import Promise

    lazy: list[object] = []
    models: list[Any] = [*MODELS]
    for model in models:
        model_admin = admin.site.get_model_admin(model)
        lazy += [model._meta.verbose_name, model._meta.verbose_name_plural]
        lazy.append(model_admin.search_help_text)
        for name in {*model_admin.list_display, *(model_admin.fields or ())}:
            method = getattr(model_admin, str(name), None)
            label = (
                method.short_description
                if method
                else model._meta.get_field(str(name)).verbose_name
            )
            if name != "id":
                lazy.append(label)
    assert len(lazy) > 30
    assert [label for label in lazy if not isinstance(label, Promise)] == []
