"""Whatever an address or a form holds, and however numbers are written, no page breaks."""

from __future__ import annotations

from typing import cast
from urllib.parse import quote

import psycopg
import pytest
from django.conf import LazySettings
from django.contrib import admin
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.urls import reverse

from tests.crawling import Crawler
from tests.full_house import furnish

pytestmark = pytest.mark.django_db

MODELS = [
    model._meta.model_name
    for model in admin.site._registry
    if model._meta.app_label == "graphile_worker"
]
PARAMETERS = ("q", "state", "task", "queue", "p", "o", "_to_field", "payload__contains")
PAGES = (
    "keyconflict/key/?key=",
    "lockedjob/unlock/?worker=",
    "lockedqueue/unlock/?worker=",
)


@pytest.fixture
def root(db: None) -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


@pytest.mark.parametrize("odd", ["\0", "a\nb", "\udc80", "9" * 30, "-1"], ids=ascii)
def test_what_nobody_would_type(root: Client, odd: str) -> None:
    sent = quote(odd.encode("utf-8", "surrogateescape"))
    for model in MODELS:
        for parameter in PARAMETERS:
            url = f"{reverse(f'admin:graphile_worker_{model}_changelist')}?{parameter}={sent}"
            assert root.get(url).status_code in (200, 302, 400), url
        for page in ("change", "history"):
            url = f"/admin/graphile_worker/{model}/{sent}/{page}/"
            assert root.get(url).status_code in (302, 404), url
    for page in PAGES:
        assert root.get(f"/admin/graphile_worker/{page}{sent}").status_code in (200, 302), page
    odd = odd.replace("\udc80", "\ufffd")  # what a browser would send in a form
    for verb in ("run_now", "reschedule", "no_such_verb"):
        url = reverse("admin:graphile_worker_job_act", args=[verb])
        for data in ({"jobs": odd}, {"jobs": "1", "back": odd}, {"jobs": "1", "sure": odd}):
            assert root.post(url, data).status_code in (200, 302, 400), (verb, data)


def test_numbers_in_addresses_are_not_written_as_a_reader_would(
    root: Client, schema: str, settings: LazySettings
) -> None:
    settings.USE_THOUSAND_SEPARATOR = True
    settings.LANGUAGE_CODE = "de"
    settings.USE_TZ = False
    house = furnish(cast("psycopg.Connection[object]", connection.connection), schema)
    there = set(map(str, house.jobs.values()))
    visits = list(Crawler(root.get, alike=2, parameters=1).crawl(reverse("admin:index")))
    odd = {visit.url: visit.status for visit in visits if visit.status != 200}
    # Only to a job that is gone, and told so: a superseded one whose conflict is on record.
    assert [url for url in odd if "/job/" not in url or url.split("/")[4] in there] == []
    assert len(visits) > 60
