"""Conflicts: the live ones first, and all about one key on a page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import LazySettings
from django.test import Client
from django.urls import reverse
from psycopg import sql
from pytest_django import DjangoAssertNumQueries

from tests.doors.admin.conftest import AddRow, LogIn
from tests.doors.conftest import AddJob

pytestmark = pytest.mark.django_db

LIST = "admin:graphile_worker_keyconflict_changelist"
KEY = "admin:graphile_worker_keyconflict_key"
EVIL = "\"'><img src=x onerror=alert(1)>"

AddConflict = Callable[..., None]


@pytest.fixture
def add_conflict(add_row: AddRow) -> AddConflict:
    def add(**values: Any) -> None:
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
        }
        add_row("django_key_conflicts", **row | values)

    return add


@pytest.fixture
def viewer(log_in: LogIn) -> Client:
    return log_in("view_keyconflict")


def live(client: Client) -> list[str]:
    return [shown["row"].key for shown in client.get(reverse(LIST)).context["live"]]


def test_live_is_what_still_runs_while_its_successor_is_stored(
    viewer: Client, add_job: AddJob, add_conflict: AddConflict
) -> None:
    running = add_job(locked_at="now()", locked_by="'w'", attempts="25")
    second = add_job(locked_at="now()", locked_by="'w'", attempts="25")
    failed = add_job(attempts="25")
    successor = add_job()
    add_conflict(key="live", superseded_job_id=running, successor_job_id=successor)
    add_conflict(key="successor gone", superseded_job_id=second, successor_job_id=2**53)
    add_conflict(key="ended", superseded_job_id=2**53 + 1, successor_job_id=successor)
    add_conflict(key="failed", superseded_job_id=failed, successor_job_id=successor)
    assert live(viewer) == ["live"]
    page = viewer.get(reverse(LIST)).content.decode()
    assert page.index("Live") < page.index("History")
    assert reverse("admin:graphile_worker_job_change", args=[running]) in page
    assert reverse("admin:graphile_worker_job_change", args=[successor]) in page


def test_a_key_tells_how_often_and_which_tasks(viewer: Client, add_conflict: AddConflict) -> None:
    for age in ("1 minute", "2 hours", "2 days", "10 days"):
        at = sql.SQL("now() - {}::interval").format(sql.Literal(age))
        add_conflict(recorded_at=at, superseded_task="a", successor_task="b")
    add_conflict(key="other")
    context = viewer.get(reverse(KEY), {"key": "k"}).context
    assert [times for _label, times in context["periods"]] == [1, 2, 3]
    assert context["total"] == 4
    assert list(context["tasks"]) == [{"superseded_task": "a", "successor_task": "b", "times": 4}]
    assert len(context["newest"]) == 4


@pytest.mark.parametrize("key", ["", "unknown", "a\0b", EVIL])
def test_a_key_without_conflicts_has_a_page(viewer: Client, key: str) -> None:
    response = viewer.get(reverse(KEY), {"key": key})
    assert response.status_code == 200
    assert response.context["total"] == 0
    assert "<img src=x" not in response.content.decode()


def test_what_is_stored_is_escaped(
    viewer: Client, add_job: AddJob, add_conflict: AddConflict
) -> None:
    running = add_job(locked_at="now()", locked_by="'w'")
    add_conflict(
        key=EVIL,
        superseded_job_id=running,
        successor_job_id=add_job(),
        superseded_task=EVIL,
        successor_task=EVIL,
        superseded_locked_by=EVIL,
        superseded_locked_at=sql.SQL("'-infinity'"),
        finished_at=sql.SQL("'infinity'"),
    )
    assert live(viewer) == [EVIL]
    for response in (viewer.get(reverse(LIST)), viewer.get(reverse(KEY), {"key": EVIL})):
        assert response.status_code == 200
        assert "<img src=x" not in response.content.decode()
        assert "&lt;img src=x" in response.content.decode()


def test_only_who_may_view_conflicts_sees_them(log_in: LogIn) -> None:
    client = log_in("view_job", "act_on_job", "unlock_worker")
    assert client.get(reverse(LIST)).status_code == 403
    assert client.get(reverse(KEY), {"key": "k"}).status_code == 403


def test_pages_take_few_queries(
    viewer: Client, add_conflict: AddConflict, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(30):
        add_conflict()
    for url in (reverse(LIST), f"{reverse(KEY)}?key=k"):
        with django_assert_max_num_queries(10):
            assert viewer.get(url).status_code == 200


@pytest.mark.parametrize(("use_tz", "zone"), [(True, "Asia/Kolkata"), (False, "Europe/Berlin")])
def test_charts_tell_when(
    viewer: Client, add_conflict: AddConflict, settings: LazySettings, use_tz: bool, zone: str
) -> None:
    """By whole hours since 1970, whatever the zone; half an hour is a quarter of India's."""
    settings.USE_TZ, settings.TIME_ZONE = use_tz, zone
    this_hour = "date_trunc('hour', now() at time zone 'UTC') at time zone 'UTC'"
    for hours, times in ((0, 3), (1, 1), (23, 2), (24, 4), (167, 5), (168, 7)):
        for _ in range(times):
            moment = f"least({this_hour} - interval '{hours} hours' + interval '59 minutes', now())"
            add_conflict(recorded_at=sql.SQL(moment))
    add_conflict(key="another")
    response: Any = viewer.get(reverse(KEY), {"key": "k"})
    (day, _), (week, _) = response.context["charts"]
    assert day.series[0].values == [2, *[0] * 21, 1, 3]
    assert sum(week.series[0].values) == 15
    assert week.series[0].values[0] == 5
    assert day.description.count(": ") == 3
    assert response.content.decode().count('role="img"') == 2


def test_a_key_without_a_conflict_has_no_chart(viewer: Client) -> None:
    response: Any = viewer.get(reverse(KEY), {"key": "nobody's"})
    assert response.context["charts"] == []
