"""Asks for pages as a browser would, and counts seconds and queries."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

from django.contrib import admin
from django.contrib.auth.models import User
from django.db import connection, reset_queries
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from django_graphile_worker.admin.job_lists import STATES
from django_graphile_worker.models import Job
from tests.crawling import Crawler, Visit, shape_of

LONGEST = 1.0
MOST_QUERIES = 20

# What people search for: there once, there often, and not there.
TERMS = ("ready-600", "task_1", "task_77", "1000", "nothing has it", "django:host:1:5", "queue_5")

# What narrows the list of jobs, together with each state: names that half of the jobs have, few,
# and none, and what is found by the words above.
FILTERS: tuple[dict[str, str], ...] = (
    {},
    {"task": "task_1"},
    {"task": "task_77"},
    {"task": "nothing has it"},
    {"queue": "queue_5"},
    {"queue": "queue_77", "task": "task_77"},
    {"q": "task_1"},
    {"q": "task_77"},
    {"q": "ready-600"},
)


@dataclass
class Page:
    """The times that one page took, in seconds, and the largest number of queries."""

    url: str
    status: int = 0
    times: list[float] = field(default_factory=list)
    queries: int = 0
    slowest: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.times)

    @property
    def missed(self) -> bool:
        return self.status != 200 or max(self.times) > LONGEST or self.queries > MOST_QUERIES


def visitor() -> Client:
    client = Client(raise_request_exception=False, SERVER_NAME="localhost")
    user, _ = User.objects.get_or_create(
        username="benchmark", defaults={"is_staff": True, "is_superuser": True}
    )
    client.force_login(user)
    return client


def visit(client: Client, page: Page) -> Any:
    reset_queries()  # only so many are kept
    with CaptureQueriesContext(connection) as captured:
        begun = time.perf_counter()
        response = client.get(page.url)
        response.content  # noqa: B018 (rendered by now)
        page.times.append(time.perf_counter() - begun)
    page.status = response.status_code
    page.queries = max(page.queries, len(captured))
    longest = max(captured.captured_queries, key=seconds_of, default={"time": "0", "sql": ""})
    page.slowest = f"{longest['time']} s: ...{longest['sql'].partition(' FROM ')[2][:1000]}"
    return response


def seconds_of(query: dict[str, str]) -> float:
    return float(query["time"])


def addresses(client: Client) -> Iterator[str]:
    """Every list with its tabs, filters and searches, and what the links lead to."""
    starts = [reverse("admin:index"), reverse("admin:graphile_worker_overview_fragment")]
    for model in admin.site._registry:
        if model._meta.app_label == "graphile_worker":
            found = reverse(f"admin:graphile_worker_{model._meta.model_name}_changelist")
            starts += [found, *(f"{found}?{urlencode({'q': term})}" for term in TERMS)]
    jobs = reverse("admin:graphile_worker_job_changelist")
    for state in ("", *STATES):
        starts += [f"{jobs}?{urlencode({'state': state} | names)}" for names in FILTERS]
    rows: Any = Job.objects.order_by()
    for some in (rows.due(), rows.locked(), rows.failed()):
        for pk in some.values_list("pk", flat=True)[:1]:
            starts.append(reverse("admin:graphile_worker_job_change", args=[pk]))
    seen: set[str] = set()
    for page in Crawler(client.get, alike=6, parameters=2).crawl(*starts):
        shape = shape_of(page.url)
        if shape is None:
            continue
        for url in (page.url, *further(page)):
            if url not in seen:
                seen.add(url)
                yield url


def further(page: Visit) -> list[str]:
    """The second page of a list and the last, as its links have them."""
    numbers: dict[int, str] = {}
    for link in page.document.links:
        query = dict(parse_qsl(urlsplit(link).query))
        if link.startswith("?") and query.get("p", "").isdecimal():
            numbers[int(query["p"])] = urljoin(page.url, link)
    return [numbers[number] for number in {2, max(numbers)} & set(numbers)] if numbers else []


def measure(times: int) -> list[Page]:
    client = visitor()
    pages = [Page(url) for url in addresses(client)]
    for _ in range(times):
        for page in pages:
            visit(client, page)
    return pages
