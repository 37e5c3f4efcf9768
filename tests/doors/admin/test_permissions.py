"""Who may do what: every page and every button of the admin, tried by every kind of user.

The pages and buttons are those that a superuser finds, so that a new one is tried without being
named here. Each is sent as a superuser's form would send it, whatever the others were shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import psycopg
import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.db import connection, transaction
from django.test import Client
from django.urls import resolve, reverse
from psycopg import sql

from tests.crawling import Crawler, Document, shape_of
from tests.full_house import House, furnish

pytestmark = pytest.mark.django_db

MODELS = [model for model in admin.site._registry if model._meta.app_label == "graphile_worker"]

# What somebody may besides looking; `None` is somebody who may not even look.
KINDS: dict[str, set[str] | None] = {
    "nobody": None,
    "viewer": set(),
    "payload reader": {"view_payload"},
    "actor": {"act_on_job"},
    "unlocker": {"unlock_worker"},
}

# Words in an address or in what is sent; whatever has none of them acts on jobs.
UNLOCKING = ("unlock", "pause", "resume")


@dataclass(frozen=True)
class Button:
    """A form of a page, as one of its buttons sends it."""

    url: str
    fields: tuple[tuple[str, str], ...]

    @property
    def data(self) -> dict[str, list[str]]:
        data: dict[str, list[str]] = {}
        for name, value in self.fields:
            if name:
                data.setdefault(name, []).append(value)
        return data

    @property
    def name(self) -> str:
        return resolve(self.url.partition("?")[0]).url_name or ""

    @property
    def needs(self) -> str:
        said = self.name + repr(self.fields)
        return "unlock_worker" if any(word in said for word in UNLOCKING) else "act_on_job"

    @property
    def like(self) -> object:
        """What buttons have in common that differ by the row only."""
        chosen = [(n, v) for n, v in self.fields if n == "action" or not v]
        return shape_of(self.url), tuple(chosen), tuple(sorted({n for n, _v in self.fields}))


# Found by the first test that asks: a house is furnished alike for each, and to find all of it
# takes ten times as long as to try it.
FOUND: dict[str, list[Any]] = {}


@pytest.fixture
def house(db: None, schema: str) -> House:
    connection.ensure_connection()
    return furnish(cast("psycopg.Connection[Any]", connection.connection), schema)


@pytest.fixture
def root(house: House) -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


@pytest.fixture
def pages(root: Client) -> list[str]:
    """The addresses of all pages, a few of each sort."""
    if "pages" in FOUND:
        return FOUND["pages"]
    before = state()
    crawler = Crawler(root.get, alike=2, parameters=1)
    found = [visit.url for visit in crawler.crawl(reverse("admin:index"))]
    assert state() == before, "looking has changed something"
    ours = [url for url in found if shape_of(url) is not None]
    assert len(ours) > 10
    FOUND["pages"] = ours
    return ours


@pytest.fixture
def buttons(root: Client, pages: list[str]) -> list[Button]:
    """What every form sends, and every form that one leads to; two of each sort."""
    if "buttons" in FOUND:
        return FOUND["buttons"]
    found: list[Button] = []
    seen: Counter[object] = Counter()

    def collect(url: str, page: str, depth: int) -> None:
        for form in Document(page).forms:
            if form.method != "post" or shape_of(form.action or url) is None:
                continue
            for fields in form.requests():
                button = Button(form.action or url, tuple(fields))
                seen[button.like] += 1
                if seen[button.like] > 2:
                    continue
                found.append(button)
                if depth:
                    with undone():
                        response = root.post(button.url, button.data)
                        collect(button.url, response.content.decode(), depth - 1)

    for url in pages:
        collect(url, root.get(url).content.decode(), 2)
    assert len(found) > 2
    FOUND["buttons"] = found
    return found


@contextmanager
def undone() -> Iterator[None]:
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def state() -> list[str]:
    """Every row of every table of the queue."""
    from django_graphile_worker.conf import get_config

    schema = get_config().schema
    with connection.cursor() as cursor:
        cursor.execute("select tablename from pg_tables where schemaname = %s order by 1", [schema])
        tables = [sql.Identifier(schema, name) for (name,) in cursor.fetchall()]
        each = sql.SQL("(select coalesce(string_agg(t::text, ',' order by t::text), '') from {} t)")
        cursor.execute(sql.SQL("select {}").format(sql.SQL(", ").join(map(each.format, tables))))
        return list(cursor.fetchone())


def somebody(kind: str) -> Client:
    client = Client()
    user = User.objects.create_user(kind, is_staff=True)
    permissions = KINDS[kind]
    if permissions is not None:
        ours = Permission.objects.filter(content_type__app_label="graphile_worker")
        user.user_permissions.add(*ours.filter(codename__in=permissions))
        user.user_permissions.add(
            *ours.filter(codename__startswith="view_").exclude(codename="view_payload")
        )
    client.force_login(user)
    return client


def test_who_is_not_logged_in_is_led_to_the_login(
    pages: list[str], buttons: list[Button], client: Client
) -> None:
    before = state()
    User.objects.create_user("visitor")
    for log_in in (False, True):  # somebody who is not of the staff is led there, too
        if log_in:
            client.force_login(User.objects.get(username="visitor"))
        responses = [client.get(url) for url in pages]
        responses += [client.post(button.url, button.data) for button in buttons]
        for response in responses:
            assert response.status_code == 302
            assert response.headers["Location"].startswith(reverse("admin:login"))
    assert state() == before


def test_who_may_nothing_sees_nothing(pages: list[str]) -> None:
    client = somebody("nobody")
    statuses = {url: client.get(url).status_code for url in pages}
    # Django leads back to the index from the page of what one may not see.
    assert {url: code for url, code in statuses.items() if code not in (302, 403, 404)} == {}
    for url, code in statuses.items():
        if code == 302:
            assert client.get(url).headers["Location"] == reverse("admin:index")


@pytest.mark.parametrize("kind", ["viewer", "payload reader", "actor", "unlocker"])
def test_who_may_look_sees_every_page(pages: list[str], kind: str) -> None:
    client = somebody(kind)
    statuses = {url: client.get(url).status_code for url in pages}
    # A page that asks before something is unlocked is for who may do that.
    may_unlock = "unlock_worker" in (KINDS[kind] or ())
    asks = {url for url in pages if any(word in url.partition("?")[0] for word in UNLOCKING)}
    assert {
        url: statuses[url] for url in asks if statuses[url] != (200 if may_unlock else 403)
    } == {}
    assert {url: statuses[url] for url in pages if url not in asks and statuses[url] != 200} == {}


@pytest.mark.parametrize("kind", KINDS)
def test_a_button_does_nothing_for_who_may_not_press_it(buttons: list[Button], kind: str) -> None:
    client = somebody(kind)
    permitted = KINDS[kind] or set()
    before = state()
    denied = 0
    for button in buttons:
        if button.needs in permitted:
            continue
        with undone():
            response = client.post(button.url, button.data)
            # From a list, Django drops an action that one may not take, and shows the list.
            of_list = button.name.endswith("_changelist")
            assert response.status_code in ((200, 302, 403) if of_list else (403,)), button
            assert state() == before, button
            assert LogEntry.objects.count() == 0, button
            denied += 1
    assert denied > 0


@pytest.mark.parametrize("kind", ["actor", "unlocker", "superuser"])
def test_a_button_works_for_who_may_press_it(
    buttons: list[Button], root: Client, kind: str
) -> None:
    client = root if kind == "superuser" else somebody(kind)
    permitted = {"act_on_job", "unlock_worker"} if kind == "superuser" else KINDS[kind] or set()
    before = state()
    changed = 0
    for button in buttons:
        if button.needs not in permitted:
            continue
        with undone():
            response = client.post(button.url, button.data)
            assert response.status_code in (200, 302), (button, response.status_code)
            if state() != before:
                changed += 1
                assert LogEntry.objects.count() > 0, button
    assert changed > 0


def test_without_the_token_of_its_page_nothing_is_taken(
    buttons: list[Button], house: House
) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.get(username="root"))
    before = state()
    for button in buttons:
        data = {k: v for k, v in button.data.items() if k != "csrfmiddlewaretoken"}
        assert client.post(button.url, data).status_code == 403
    assert state() == before


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.model_name)
def test_nobody_adds_edits_or_deletes(root: Client, model: type[Any]) -> None:
    name = f"admin:graphile_worker_{model._meta.model_name}"
    before = state()
    rows = model._default_manager.all()[:1]
    addresses = [reverse(f"{name}_add")]
    for row in rows:
        addresses += [reverse(f"{name}_{view}", args=[row.pk]) for view in ("change", "delete")]
    for address in addresses:
        assert root.post(address, {"post": "yes"}).status_code in (302, 403, 404), address
    assert state() == before
