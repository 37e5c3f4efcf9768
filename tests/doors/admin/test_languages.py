"""Who has chosen another language reads the pages in it, as far as they are ours."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from tests.doors.conftest import AddJob

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("en", ["named queue", "attempts", "failed", "retrying"]),
        ("de", ["benannte Warteschlange", "Versuche", "fehlgeschlagen"]),
        ("fr", ["file nommée", "tentatives", "échoué"]),
    ],
)
def test_a_page_speaks(
    client: Client, settings: Settings, add_job: AddJob, language: str, words: list[str]
) -> None:
    settings.LANGUAGE_CODE = language
    client.force_login(User.objects.create_superuser("root"))
    add_job(attempts="25")
    page = client.get(reverse("admin:graphile_worker_job_changelist")).content.decode()
    assert f'lang="{language}' in page
    for word in words:
        assert word.lower() in page.lower()
