"""The pages on another admin site than Django's, subclassed, and with a transaction a request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import psycopg
import pytest
from django.conf import LazySettings
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test import Client
from django.urls import path, reverse

from django_graphile_worker.models import Job, JobQueue, Overview
from tests import guards
from tests.crawling import Crawler, Document, Visit
from tests.full_house import House, furnish

HEADING = "Our queues"

# What a project may set in a class of its own.
CHANGES: dict[type[Any], dict[str, Any]] = {
    Job: {"list_display": ("id", "task_identifier"), "list_per_page": 5},
    JobQueue: {"change_list_template": "themed/queues.html"},
    Overview: {"template": "themed/overview.html"},
}
TEMPLATES = {
    "themed/queues.html": '{% extends "admin/graphile_worker/change_list.html" %}'
    f"{{% block search %}}<p>{HEADING}</p>{{{{ block.super }}}}{{% endblock %}}",
    "themed/overview.html": '{% extends "admin/graphile_worker/overview.html" %}'
    f"{{% block content %}}<p>{HEADING}</p>{{{{ block.super }}}}{{% endblock %}}",
}

site = admin.AdminSite(name="themed")
for model, registered in list(admin.site._registry.items()):
    if model._meta.app_label == "graphile_worker":
        site.register(model, type("Own", (type(registered),), CHANGES.get(model, {})))

# A site for each page, which has no other.
ALONE: dict[type[Any], admin.AdminSite] = {}
for model in site._registry:
    ALONE[model] = admin.AdminSite(name=f"only-{model._meta.model_name}")
    ALONE[model].register(model, type(admin.site.get_model_admin(model)))

urlpatterns = [
    path("admin/", admin.site.urls),
    path("themed/", site.urls),
    *(path(f"{alone.name}/", alone.urls) for alone in ALONE.values()),
]

pytestmark = [pytest.mark.django_db, pytest.mark.urls(__name__)]


@pytest.fixture(autouse=True)
def templates(settings: LazySettings) -> None:
    engine: dict[str, Any] = settings.TEMPLATES[0]
    loaders = [
        ("django.template.loaders.locmem.Loader", TEMPLATES),
        "django.template.loaders.filesystem.Loader",
        "django.template.loaders.app_directories.Loader",
    ]
    options = {**engine.get("OPTIONS", {}), "loaders": loaders}
    settings.TEMPLATES = [{**engine, "APP_DIRS": False, "OPTIONS": options}]


@pytest.fixture(params=[False, True], ids=["autocommit", "a transaction a request"])
def is_atomic(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", request.param)
    return bool(request.param)


@pytest.fixture
def house(db: None, schema: str) -> House:
    connection.ensure_connection()
    return furnish(cast("psycopg.Connection[Any]", connection.connection), schema)


@pytest.fixture
def root() -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(User.objects.create_superuser("root"))
    return client


def crawl(client: Client, name: str = "themed") -> list[Visit]:
    start = reverse("admin:index", current_app=name)
    assert start == f"/{name}/"
    return list(Crawler(client.get, alike=1, parameters=1).crawl(start))


@contextmanager
def undone() -> Iterator[None]:
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def test_every_link_and_every_button_stays_on_its_site(
    house: House, root: Client, is_atomic: bool
) -> None:
    visits = crawl(root)
    assert {visit.url: visit.status for visit in visits if visit.status != 200} == {}
    assert [visit.url for visit in visits if not visit.url.startswith("/themed/")] == []
    assert len({visit.url.split("?")[0] for visit in visits}) > 30
    led: list[str] = []
    for visit in visits:
        for form in visit.document.forms:
            if form.method != "post" or "/logout/" in form.action or "/jsi18n" in form.action:
                continue
            assert not form.action.startswith("/admin/"), visit.url
            for fields in form.requests():
                with undone():
                    url = form.action or visit.url
                    response = root.post(url, {name: value for name, value in fields if name})
                    assert response.status_code in (200, 302), (url, fields)
                    if response.status_code == 302:
                        led.append(response.headers["Location"])
                        continue
                    answer = Document(response.content.decode())
                    to = [*answer.links, *(form.action for form in answer.forms)]
                    assert [link for link in to if link.startswith("/admin/")] == [], (url, fields)
    assert len(led) > 10
    assert [url for url in led if not url.startswith("/themed/")] == []


@pytest.mark.parametrize("model", ALONE, ids=lambda model: model._meta.model_name)
def test_a_page_needs_no_other(house: House, root: Client, model: type[Any]) -> None:
    name = ALONE[model].name
    visits = crawl(root, name)
    assert {visit.url: visit.status for visit in visits if visit.status != 200} == {}
    assert [visit.url for visit in visits if not visit.url.startswith(f"/{name}/")] == []
    assert len(visits) >= 3


def test_a_class_of_ones_own_changes_columns_and_templates(house: House, root: Client) -> None:
    pages = {model: shown(root, model) for model in (Job, JobQueue, Overview)}
    assert "column-task_identifier" in pages[Job]
    assert "column-priority" not in pages[Job]
    assert pages[Job].count('class="field-task_identifier"') == 5
    assert HEADING in pages[JobQueue]
    assert HEADING in pages[Overview]
    assert HEADING not in root.get(reverse("admin:graphile_worker_overview_changelist")).text


def shown(client: Client, model: type[Any]) -> str:
    name = f"admin:graphile_worker_{model._meta.model_name}_changelist"
    response = client.get(reverse(name, current_app="themed"))
    assert response.status_code == 200
    return response.content.decode()


def test_nothing_is_done_that_cannot_be_logged(
    transactional_db: None,
    schema: str,
    root: Client,
    is_atomic: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with guards.observe() as session:
        house = furnish(session, schema)

    def refuse(*_args: Any, **_options: Any) -> None:
        raise RuntimeError("the log is full")

    log = LogEntry.objects.log_actions.__func__  # type: ignore[attr-defined]
    monkeypatch.setattr(type(LogEntry.objects), "log_actions", refuse)
    before = state()
    unlock = {"worker": house.workers["dead"], "sure": "yes"}
    pause = {"action": "pause_queues", "_selected_action": [house.queues["letters"]]}
    for url, data in (
        (of("job_act", "run_now"), {"jobs": str(house.jobs["failed"]), "back": "job"}),
        (of("job_act", "complete"), {"jobs": str(house.jobs["ready"]), "sure": "yes"}),
        (of("lockedjob_unlock"), unlock),
        (of("jobqueue_changelist"), pause),
    ):
        assert root.post(url, data).status_code == 500, url
        assert state() == before, url
    monkeypatch.setattr(type(LogEntry.objects), "log_actions", log)
    assert root.post(of("lockedjob_unlock"), unlock).status_code == 302
    assert state() != before


def of(page: str, *args: Any) -> str:
    return reverse(f"admin:graphile_worker_{page}", args=args, current_app="themed")


def state() -> list[Any]:
    jobs = Job.objects.order_by("pk").values_list("pk", "run_at", "attempts", "locked_by")
    return [*jobs, *JobQueue.objects.order_by("pk").values_list("pk", "locked_by")]
