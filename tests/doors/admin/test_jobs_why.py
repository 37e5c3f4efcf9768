"""A job's page says in sentences why it is not running."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import LazySettings
from django.db import connection
from django.test import Client
from django.urls import reverse
from psycopg import sql

from django_graphile_worker.admin import why
from tests.doors.admin.conftest import AddRow, LogIn
from tests.doors.admin.job_pages import hold_queue, page_of
from tests.doors.conftest import AddJob

pytestmark = pytest.mark.django_db

LOCKED = {"locked_at": "now() - interval '1 hour'", "locked_by": "'django:w:1'", "attempts": "1"}

AddWorker = Callable[..., None]


@pytest.fixture
def viewer(log_in: LogIn) -> Client:
    return log_in("view_job")


def answer(client: Client, pk: int) -> str:
    (found,) = re.findall(
        r'<section class="graphile-worker-answer".*?</section>', page_of(client, pk), re.DOTALL
    )
    return " ".join(re.sub(r"<[^>]*>", " ", found).split())


def test_a_scheduled_one_waits_for_its_time(
    viewer: Client, add_job: AddJob, settings: LazySettings
) -> None:
    settings.TIME_ZONE = "Europe/Berlin"
    pk = add_job(run_at="'2040-07-01 10:00:30Z'")
    assert answer(viewer, pk) == "It is scheduled for July 1, 2040, 12:00:30."
    settings.USE_TZ = False
    assert answer(viewer, pk).startswith("It is scheduled for July 1, 2040")


def test_one_that_is_parked_waits_for_ever(viewer: Client, add_job: AddJob) -> None:
    for run_at in ("infinity", "20000-01-01"):
        assert "a time that never comes" in answer(viewer, add_job(run_at=f"'{run_at}'"))


def test_one_that_has_failed_waits_for_its_next_attempt(viewer: Client, add_job: AddJob) -> None:
    pk = add_job(run_at="'2040-07-01 10:00Z'", attempts="3")
    assert answer(viewer, pk) == (
        "Attempt 3 of 25 has failed; the next is due at July 1, 2040, 10:00:00."
    )


def test_one_that_has_failed_for_good_waits_for_a_person(viewer: Client, add_job: AddJob) -> None:
    assert "no attempt of 25 is left" in answer(viewer, add_job(attempts="25"))
    assert "no attempt of 1 is left" in answer(
        viewer, add_job(attempts="1", max_attempts="1", run_at="'infinity'")
    )


def test_one_in_a_held_queue_waits_for_the_job_that_holds_it(
    log_in: LogIn, add_job: AddJob, schema: str
) -> None:
    client = log_in("view_job", "view_lockedjob")
    holder = add_job(queue="letters", **LOCKED)
    pk = add_job(queue="letters")
    hold_queue(schema, "letters", "django:w:1")
    said = answer(client, pk)
    assert said.startswith(
        f"Its named queue “letters” is held by job {holder}, on worker django:w:1, since"
    )
    page = page_of(client, pk)
    assert reverse("admin:graphile_worker_job_change", args=[holder]) in page
    locked = reverse("admin:graphile_worker_lockedjob_changelist")
    assert f"{locked}?q=django%3Aw%3A1" in page


def test_one_in_a_queue_that_is_held_for_nothing_says_so(
    viewer: Client, add_job: AddJob, schema: str
) -> None:
    pk = add_job(queue="letters")
    hold_queue(schema, "letters", "django:w:1")
    said = answer(viewer, pk)
    assert "Its named queue “letters” is held by worker django:w:1" in said
    assert "though no job of it is" in said


@pytest.mark.parametrize(
    "worker",
    [None, {"dead_at": sql.SQL("now()")}, {"stopping_at": sql.SQL("now()")}],
    ids=["none", "dead", "stopping"],
)
def test_one_that_nobody_takes_says_that_nobody_does(
    viewer: Client, add_job: AddJob, add_worker: AddWorker, worker: dict[str, Any] | None
) -> None:
    if worker is not None:
        add_worker("django:w:1", **worker)
    assert "No worker of this package is alive that takes jobs" in answer(viewer, add_job())


def test_one_waits_while_all_are_busy(
    viewer: Client, add_job: AddJob, add_worker: AddWorker
) -> None:
    add_worker("django:w:1", concurrency=2)
    pk = add_job()
    add_job(**LOCKED)
    assert "first in line" in answer(viewer, pk)
    add_job(**LOCKED)
    add_job(**LOCKED | {"locked_by": "'somebody else'"})
    assert "they hold 2 jobs and run 2 at a time" in answer(viewer, pk)


def test_one_waits_for_those_before_it(
    viewer: Client, add_job: AddJob, add_worker: AddWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_worker("django:w:1")
    pk = add_job(run_at="now() - interval '1 hour'")
    add_job(priority="-1")
    assert "waits for 1 due job that comes before it" in answer(viewer, pk)
    add_job(run_at="now() - interval '2 hours'")
    add_job(run_at="now() - interval '2 hours'", priority="1")
    add_job(priority="-1", run_at="now() + interval '1 hour'")
    assert "waits for 2 due jobs that come before it" in answer(viewer, pk)
    monkeypatch.setattr(why, "AHEAD", 1)
    assert "waits for more than 1 due jobs" in answer(viewer, pk)


def test_one_whose_task_is_run_by_nobody_says_so(
    viewer: Client, add_job: AddJob, add_row: AddRow
) -> None:
    pk = add_job(task="send")
    assert "no worker of this package has run a job of the task “send”" in answer(viewer, pk)
    add_row(
        "django_statistics",
        minute=sql.SQL("date_trunc('minute', now())"),
        task_identifier="send",
        succeeded=1,
        retried=0,
        failed=0,
        waits=[1],
        runs=[1],
    )
    assert "has run a job" not in answer(viewer, pk)


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ("_private_tasks", "The row of its task is gone"),
        ("_private_job_queues", "The row of its named queue is gone"),
    ],
)
@pytest.mark.parametrize("run_at", ["now()", "now() + interval '1 hour'"])
def test_one_whose_name_is_lost_is_run_by_nobody(
    viewer: Client, add_job: AddJob, schema: str, table: str, sentence: str, run_at: str
) -> None:
    pk = add_job(queue="letters", run_at=run_at)
    with connection.cursor() as cursor:
        cursor.execute(sql.SQL("delete from {}").format(sql.Identifier(schema, table)))
    assert answer(viewer, pk).startswith(sentence)


def test_a_running_one_says_who_runs_it_and_whether_that_lives(
    viewer: Client, add_job: AddJob, add_worker: AddWorker
) -> None:
    pk = add_job(**LOCKED)
    said = answer(viewer, pk)
    assert said.startswith("It is running: worker django:w:1 has held it since")
    assert "no such worker is known any more" in said
    add_worker("django:w:1")
    assert "no such worker" not in answer(viewer, pk)


def test_flags_are_named(viewer: Client, add_job: AddJob) -> None:
    pk = add_job(flags="""'{"europe": true, "big": true}'""")
    assert "It has flags (big, europe)" in answer(viewer, pk)
    assert "It has flags" in answer(viewer, add_job(flags="'[1]'"))
