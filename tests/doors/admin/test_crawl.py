"""Whatever texts a queue holds: every page of the admin is there, and shows them as texts.

All pages are found by their links, and all actions by their forms, so that a new one is looked at
without being named here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from typing import Any, cast

import psycopg
import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection, transaction
from django.test import Client
from django.urls import resolve, reverse
from psycopg import sql

from tests.crawling import ATTRIBUTE, TAG, Crawler, Document, Visit, shape_of
from tests.full_house import NOTE, PASSWORD, House, furnish

pytestmark = pytest.mark.django_db

# Break out of a text, a script or a comment, and of an attribute in either kind of quotes.
PROBE = f"</script>--><{TAG}>{{{{ 7 }}}}&amp;"
PROBES = (PROBE, f'" {ATTRIBUTE}="1', f"' {ATTRIBUTE}='1")

# Texts of a migration, which the admin does not show, and columns that only our functions write,
# from words of their own.
WORDS = {
    ("django_replaced_functions", "name"),
    ("django_replaced_functions", "definition"),
    ("django_installation", "origin"),
    ("django_key_conflicts", "superseded_state"),
    ("django_key_conflicts", "outcome"),
}


# Of buttons that do the same.
ALIKE = 3


def probing(column: str, text: str) -> str:
    """A text that does harm wherever it is not escaped. It begins as an address that would, too."""
    probe = PROBES[sum(map(ord, column + text)) % len(PROBES)]
    return f"javascript:{probe}{column[:12]}:{text}"


@pytest.fixture
def house(db: None, schema: str) -> House:
    connection.ensure_connection()
    session = cast("psycopg.Connection[Any]", connection.connection)
    return furnish(session, schema, probing)


@pytest.fixture
def root(client: Client) -> Client:
    client.force_login(User.objects.create_superuser("root"))
    return client


def crawl(client: Client, house: House, alike: int = 3) -> list[Visit]:
    """Visit the page of every job, as no two are in the same state, and of all else a few."""
    jobs = [reverse("admin:graphile_worker_job_change", args=[pk]) for pk in house.jobs.values()]
    return list(Crawler(client.get, alike=alike).crawl(reverse("admin:index"), *jobs))


def shapes(visits: list[Visit]) -> Counter[str]:
    found = [shape_of(visit.url) for visit in visits]
    return Counter(shape[0] for shape in found if shape is not None)


def test_every_column_that_holds_text_is_probed(house: House) -> None:
    """A table that comes later has to be furnished, too."""
    with connection.cursor() as cursor:
        cursor.execute(
            "select table_name, column_name from information_schema.columns join pg_class"
            " on relname = table_name and relkind in ('r', 'p') join pg_namespace n"
            " on n.oid = relnamespace and nspname = table_schema"
            " where table_schema = %s and data_type in ('text', 'character varying')",
            [house.schema],
        )
        columns = set(cursor.fetchall()) - WORDS
        for table, column in sorted(columns):
            cursor.execute(
                sql.SQL("select count(*) from {} where {} like 'javascript:%'").format(
                    sql.Identifier(house.schema, table), sql.Identifier(column)
                )
            )
            assert cursor.fetchone()[0] > 0, (table, column)
    assert len(columns) >= 18


def test_every_page_is_there_and_nothing_on_it_is_markup(house: House, root: Client) -> None:
    visits = crawl(root, house)
    elsewhere = {visit.url: visit.status for visit in visits if visit.status != 200}
    # Of a job that is gone Django says so, on the index.
    there = set(map(str, house.jobs.values()))
    for url, status in elsewhere.items():
        match = resolve(url.partition("?")[0])
        assert (match.url_name, status) == ("graphile_worker_job_change", 302), url
        assert match.kwargs["object_id"] not in there, url
    assert {visit.url: visit.document.faults for visit in visits if visit.document.faults} == {}
    for visit in visits:
        assert not [link for link in visit.document.links if link.startswith("javascript:")]
        # The project's own, by its own address: nothing is asked of anybody else.
        assert not [at for at in visit.document.resources if at[:1] != "/" or at[:2] == "//"]
    # It did come by: the probes are shown, as texts, and more than one page has them.
    shown = [visit for visit in visits if PROBE in visit.document.text]
    assert len({shape_of(visit.url) for visit in shown}) > 5
    lists = [name for name in shapes(visits) if name.endswith("_changelist")]
    assert len(lists) >= 4
    assert {"graphile_worker_job_change"} < set(shapes(visits))
    # Ids beyond 32 bits are linked as they are.
    page = reverse("admin:graphile_worker_job_change", args=[house.jobs["large"]])
    assert any(visit.url != page and page in visit.document.links for visit in visits)
    assert NOTE in "".join(unescape(visit.document.text) for visit in visits)


def test_a_payload_is_shown_to_who_may_see_it(house: House, client: Client) -> None:
    user = User.objects.create_user("staff", is_staff=True)
    user.user_permissions.set(
        Permission.objects.filter(content_type__app_label="graphile_worker").exclude(
            codename="view_payload"
        )
    )
    client.force_login(user)
    visits = crawl(client, house)
    assert shapes(visits)["graphile_worker_job_change"] > 5
    seen = "".join(unescape(visit.document.text) for visit in visits)
    assert NOTE not in seen
    assert PASSWORD not in seen


def test_what_every_form_leads_to_is_there_and_nothing_on_it_is_markup(
    house: House, root: Client
) -> None:
    """Each button, with each choice, and each button of the page that asks whether one is sure."""
    forms = 0
    seen: Counter[object] = Counter()
    for visit in crawl(root, house, alike=2):
        forms += press(root, visit.url, visit.document, 2, seen)
    assert forms > 4


def press(client: Client, url: str, document: Document, depth: int, seen: Counter[object]) -> int:
    """Send the forms of a page; what one has changed is undone before the next.

    Of buttons that differ by the row, or by what narrows the list, only a few.
    """
    pressed = 0
    for form in document.forms:
        if form.method != "post" or "/logout/" in form.action:
            continue
        for fields in form.requests():
            target = form.action or url
            names = tuple(sorted({name for name, _value in fields}))
            chosen = tuple(value for name, value in fields if name == "action")
            like = resolve(target.partition("?")[0]).route, target.split("/")[-2], names, chosen
            seen[like] += 1
            if seen[like] > ALIKE:
                continue
            with undone():
                response = client.post(target, data=as_data(fields), follow=True)
                page = response.content.decode()
                said = Document(page)
                where = (url, fields, response.redirect_chain)
                assert response.status_code == 200, where
                assert said.faults == [], where
                pressed += 1
                if depth > 1 and not response.redirect_chain:
                    pressed += press(client, target, said, depth - 1, seen)
    return pressed


@contextmanager
def undone() -> Iterator[None]:
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def as_data(fields: list[tuple[str, str]]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for name, value in fields:
        if name:
            data.setdefault(name, []).append(value)
    return data


def test_the_crawl_would_see_a_text_that_is_not_escaped() -> None:
    double, single = '<p title="{}">', "<p title='{}'>"
    for harmful, around in ((0, "<p>{}</p>"), (0, "<!--{}-->"), (1, double), (2, single)):
        assert Document(around.format(PROBES[harmful])).faults
    for harmless, around in ((1, "<p>{}</p>"), (2, double), (1, single)):
        assert Document(around.format(PROBES[harmless])).faults == []
