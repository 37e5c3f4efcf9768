"""The overview: right numbers, for who may see them, whatever the names and errors are."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin import AdminSite
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from psycopg import sql
from pytest_django import Settings

from django_graphile_worker.admin.base import CappedPaginator
from django_graphile_worker.admin.overview import OverviewAdmin
from django_graphile_worker.admin.periods import DAY, HOUR, describe
from django_graphile_worker.models import Overview
from django_graphile_worker.statements.statistics import BOUNDS, Totals
from tests.crawling import Document
from tests.doors.admin.conftest import AddRow, LogIn
from tests.doors.conftest import AddJob

pytestmark = pytest.mark.django_db

PAGE = "admin:graphile_worker_overview_changelist"
FRAGMENT = "admin:graphile_worker_overview_fragment"
both = pytest.mark.parametrize("name", [PAGE, FRAGMENT])
PROBE = "\"'><x-probe onprobe=1>{{ 7 }}"
LONG_AGO = sql.SQL("now() - interval '1 hour'")

AddStatistic = Callable[..., None]


@pytest.fixture
def viewer(log_in: LogIn) -> Client:
    return log_in("view_overview")


@pytest.fixture
def add_statistic(add_row: AddRow) -> AddStatistic:
    """Put a row in of some minutes ago; histograms are given by bucket."""

    def add(minutes: int = 2, *, waits: Any = None, runs: Any = None, **values: Any) -> None:
        row: dict[str, Any] = {
            "minute": sql.SQL(f"date_trunc('minute', now()) - interval '{minutes} minutes'"),
            "task_identifier": "print",
            "succeeded": 1,
            "retried": 0,
            "failed": 0,
        }
        histograms = {"waits": array(waits or {}), "runs": array(runs or {})}
        add_row("django_statistics", **row | histograms | values)

    return add


def array(histogram: dict[int, int]) -> list[int]:
    return [histogram.get(bucket, 0) for bucket in range(max(histogram, default=0) + 1)]


def look(client: Client, name: str = PAGE) -> Any:
    response = client.get(reverse(name))
    assert response.status_code == 200
    return response


def tiles(client: Client) -> dict[str, str]:
    return {str(tile.label): str(tile.value) for tile in look(client).context["tiles"]}


def text_of(response: Any) -> str:
    return " ".join(Document(response.content.decode()).text.split())


@both
def test_only_who_may_view_the_overview_sees_it(log_in: LogIn, client: Client, name: str) -> None:
    assert client.get(reverse(name)).status_code == 302
    others = log_in("view_job", "view_joberror", "view_worker", "view_statistic", "act_on_job")
    assert others.get(reverse(name)).status_code == 403
    client.force_login(User.objects.create_superuser("root"))
    assert client.get(reverse(name)).status_code == 200


@both
def test_of_an_empty_queue_it_says_so(viewer: Client, name: str) -> None:
    response = look(viewer, name)
    text = text_of(response)
    assert text.count("No worker of this package has run anything in this time.") == 2
    assert "No task was run." in text
    assert 'role="img"' not in response.content.decode()
    values = [tile.value for tile in response.context["tiles"]]
    assert values == ["0", "0", "0", "0", "0", "-", "0"]
    assert not response.context["nobody_works"]


def test_tiles_count_each_state_and_stop_counting(
    viewer: Client, add_job: AddJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, state in (
        (4, {"run_at": "now() - interval '5 minutes'"}),
        (3, {"run_at": "now() + interval '1 day'"}),
        (2, {"run_at": "now() + interval '1 day'", "attempts": "1"}),
        (1, {"locked_at": "now()", "locked_by": "'w'"}),
        (2, {"attempts": "25"}),
    ):
        for _ in range(number):
            add_job(**state)
    found = tiles(viewer)
    names = ("ready", "scheduled", "retrying", "running", "failed")
    assert [found[name] for name in names] == ["4", "3", "2", "1", "2"]
    assert found["oldest due job has waited"] == "5\N{NO-BREAK SPACE}min"
    monkeypatch.setattr(CappedPaginator, "cap", 3)
    assert tiles(viewer)["ready"] == "3+"


def test_a_job_that_was_always_due_and_one_that_never_will_be_do_no_harm(
    viewer: Client, add_job: AddJob
) -> None:
    add_job(run_at="'infinity'")
    assert tiles(viewer)["oldest due job has waited"] == "-"
    add_job(run_at="'-infinity'")
    assert tiles(viewer)["oldest due job has waited"] == "∞"


def test_workers_are_counted_by_their_verdict(
    viewer: Client, add_worker: Callable[..., None], add_job: AddJob
) -> None:
    add_job()
    assert "no worker of this package is alive" in text_of(look(viewer))
    add_worker("dead", last_beat_at=LONG_AGO, dead_at=LONG_AGO)
    add_worker("silent", last_beat_at=LONG_AGO)
    assert "no worker of this package is alive" in text_of(look(viewer))
    add_worker("stopping", stopping_at=sql.SQL("now()"))
    add_worker("alive")
    response = look(viewer)
    assert "no worker of this package is alive" not in text_of(response)
    tile = response.context["tiles"][-1]
    assert (tile.value, tile.note) == ("2", "1 stale, 1 dead")


def test_an_hour_and_a_day_have_what_was_run_in_them(
    viewer: Client, add_statistic: AddStatistic
) -> None:
    bucket, slow = 10, 30
    add_statistic(2, succeeded=90, retried=8, failed=2, waits={bucket: 100}, runs={slow: 100})
    add_statistic(2, succeeded=7, task_identifier="other")
    add_statistic(200, succeeded=1_000, waits={bucket: 950, slow: 50}, runs={bucket: 1})
    add_statistic(2_000, succeeded=50_000)
    hour, day = look(viewer).context["periods"]
    assert hour.sentences[0].startswith("107 attempts ended: 97 succeeded, 8 failed and to be")
    assert day.sentences[0].startswith("1,107 attempts ended: 1,097 succeeded")
    ((_time, counts, _times, _url),) = hour.rows
    assert counts == ["97", "8", "2"]
    assert [row.counts[0] for row in day.rows] == ["97", "1,000"]
    assert [len(chart.steps) for chart in hour.charts] == [1, 1, 1, 1]
    assert [len(chart.steps) for chart in day.charts] == [2, 1, 2, 2]
    assert f"{BOUNDS[bucket] * 1000:.0f}\N{NO-BREAK SPACE}ms" in hour.sentences[1]
    assert f"{BOUNDS[slow]:.0f}\N{NO-BREAK SPACE}s" in hour.sentences[2]


def test_every_number_of_a_chart_is_in_its_table_and_a_chart_says_what_it_shows(
    viewer: Client, add_statistic: AddStatistic
) -> None:
    add_statistic(2, succeeded=4321, retried=17, failed=3, waits={10: 1}, runs={20: 1})
    response = look(viewer)
    page = response.content.decode()
    for described in response.context["periods"]:
        (row,) = described.rows
        for text in (*row.counts, *row.times):
            assert f"<td>{text}</td>" in page
        for chart in described.charts:
            assert chart.description
            title, text = f'id="{chart.name}-title"', f'id="{chart.name}-text"'
            assert page.count(title) == page.count(text) == 1
            assert f'aria-labelledby="{chart.name}-title {chart.name}-text"' in page
    assert page.count('role="img"') == 8
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_the_busiest_tasks_of_the_hour_come_first(
    viewer: Client, add_statistic: AddStatistic
) -> None:
    for number in range(15):
        add_statistic(task_identifier=f"task {number:02}", succeeded=100 + number)
    add_statistic(task_identifier="failing", succeeded=0, retried=400, failed=100)
    add_statistic(200, task_identifier="long ago", succeeded=10_000)
    busiest = look(viewer).context["busiest"]
    assert [row.name for row in busiest][:2] == ["failing", "task 14"]
    assert len(busiest) == 10
    assert busiest[0].counts == ["0", "400", "100"]


def test_recent_failures_are_for_who_may_view_them(
    log_in: LogIn, add_error: Callable[..., None]
) -> None:
    add_error(error="the secret of the error")
    client = log_in("view_overview")
    text = text_of(look(client))
    assert "secret" not in text
    assert "Recent failures" not in text


def test_recent_failures_are_the_newest_and_cut(
    log_in: LogIn, add_error: Callable[..., None]
) -> None:
    for number in range(12):
        add_error(job_id=2**53 + number, error=f"{number} {'x' * 300}")
    add_error(job_id=7, failed_at=sql.SQL("'infinity'"), error="short\n  File somewhere")
    response = look(log_in("view_overview", "view_joberror"))
    failures = response.context["failures"]
    assert [failure["row"].job_id for failure in failures][:2] == [7, 2**53 + 11]
    assert len(failures) == 10
    assert failures[0]["text"] == "short"
    assert len(failures[1]["text"]) == 201
    assert str(2**53 + 11) in text_of(response)
    # A link to a job only for who may view jobs.
    assert [failure["job_url"] for failure in failures] == [None] * 10


@both
def test_markup_in_names_and_errors_is_text(
    client: Client,
    add_statistic: AddStatistic,
    add_error: Callable[..., None],
    add_worker: Callable[..., None],
    add_job: AddJob,
    name: str,
) -> None:
    client.force_login(User.objects.create_superuser("root"))
    add_statistic(task_identifier=PROBE, waits={1: 1}, runs={1: 1})
    add_error(task_identifier=PROBE, error=PROBE)
    add_worker(PROBE, host=PROBE)
    add_job(task=PROBE)
    document = Document(look(client, name).content.decode())
    assert document.faults == []
    assert document.text.count(PROBE) == 3  # a busy task, and the task and the error of a failure
    assert not [at for at in document.resources if not at.startswith("/")]


def test_links_lead_where_somebody_may_go_and_to_what_was_counted(
    client: Client, add_statistic: AddStatistic, add_job: AddJob, add_error: Callable[..., None]
) -> None:
    add_statistic(task_identifier="a & b")
    add_error(job_id=add_job(task="a & b", run_at="now() - interval '1 minute'"))
    user = User.objects.create_superuser("root")
    client.force_login(user)
    page = reverse(PAGE)
    part = look(client, FRAGMENT)
    links = Document(part.content.decode()).links
    assert any("state=ready" in link for link in links)
    for link in links:
        response = client.get(link)
        assert response.status_code == 200, link
    (row,) = part.context["busiest"]
    assert len(client.get(row.url).context["cl"].result_list) == 1
    assert reverse(FRAGMENT) in client.get(page).content.decode()


def test_without_other_permissions_nothing_is_linked(
    viewer: Client, add_statistic: AddStatistic, add_error: Callable[..., None]
) -> None:
    add_statistic()
    add_error()
    assert Document(look(viewer, FRAGMENT).content.decode()).links == []


def test_it_takes_as_many_queries_for_many_rows_as_for_none(
    client: Client,
    add_statistic: AddStatistic,
    add_error: Callable[..., None],
    add_worker: Callable[..., None],
    add_job: AddJob,
) -> None:
    client.force_login(User.objects.create_superuser("root"))
    look(client)
    with CaptureQueriesContext(connection) as before:
        look(client)
    for number in range(30):
        add_statistic(number * 7, task_identifier=f"task {number}", waits={1: 1}, runs={3: 1})
        add_error(job_id=add_job(task=f"task {number}"))
        add_worker(f"django:{number}")
    with CaptureQueriesContext(connection) as after:
        look(client)
    assert len(after) == len(before) <= 15
    written = [query["sql"] for query in after if not query["sql"].startswith(("SELECT", "--"))]
    assert written == []


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu", "America/St_Johns"])
@pytest.mark.parametrize("period", [HOUR, DAY])
def test_a_period_ends_with_now_where_the_reader_is(
    settings: Settings, period: Any, zone: str
) -> None:
    settings.TIME_ZONE = zone
    now = 1_800_000_000.0 + 3_599
    last = now // period.step * period.step
    first = last - (period.steps - 1) * period.step
    found = [Totals("", start, 1, 0, 0, [1], [1]) for start in (first - period.step, first, last)]
    described = describe(period, found, now)
    assert described.sentences[0].startswith("2 attempts ended")
    newest, oldest = described.rows
    chart = described.charts[0]
    assert [step.text.rpartition(": ")[0] for step in chart.steps] == [oldest.name, newest.name]
    assert chart.x_labels[0] == oldest.name
    assert float(chart.steps[0].x) == 0
    assert float(chart.steps[-1].x) + float(chart.steps[-1].width) == pytest.approx(600, abs=0.1)


def test_another_admin_site_has_it_without_the_other_pages(add_job: AddJob) -> None:
    """A site may leave out what the overview links to."""
    add_job()
    site = AdminSite(name="other")
    overview = OverviewAdmin(Overview, site)
    request = RequestFactory().get("/")
    request.user = User.objects.create_superuser("root")
    seen = overview.look(request)
    assert {tile.url for tile in seen["tiles"]} == {None}
    assert seen["failures_url"] is None
