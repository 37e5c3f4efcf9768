"""Everything once under the schema name that the environment says; run with `-m`.

A program of its own, since the models' tables get their names when they are loaded. It ends badly
at the first thing that does not work.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from io import StringIO
from typing import Any

import django


def main() -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "testproject.settings"
    django.setup()
    from django.core.management import call_command

    call_command("migrate", "contenttypes", verbosity=0)
    call_command("migrate", "graphile_worker", verbosity=0)
    call_command("makemigrations", check_changes=True, dry_run=True, verbosity=0)
    empty_search_path()
    add_and_read()
    run_jobs()
    hear_of_a_job()
    free_the_dead()
    operate()
    dump()
    call_command("inspectdb", stdout=StringIO())
    default_search_path()
    look_at_admin()  # which asks for content types
    call_command("migrate", "graphile_worker", verbosity=0)  # once more: nothing to do
    take_down()
    sys.stdout.write("ALL WELL\n")


def execute(text: str, params: Any = None) -> list[Any]:
    """Run SQL in which `{...}` are names in the schema, on Django's own connection."""
    from django.db import connection
    from psycopg import sql

    from django_graphile_worker.conf import get_config

    names = ("add_job", "add_jobs", "jobs", "_private_jobs", "_private_job_queues")
    schema = get_config().schema
    with connection.cursor() as cursor:
        cursor.execute(
            sql.SQL(text).format(**{name: sql.Identifier(schema, name) for name in names}), params
        )
        return cursor.fetchall() if cursor.description else []


def empty_search_path() -> None:
    """Let all who connect from now on find nothing by a bare name."""
    from django.db import connection, connections

    name = connection.ops.quote_name(connection.settings_dict["NAME"])
    execute(f"alter database {name} set search_path to ''".replace("{", "{{"))
    connections.close_all()
    assert execute("show search_path") == [('""',)]


def default_search_path() -> None:
    from django.db import connection, connections

    name = connection.ops.quote_name(connection.settings_dict["NAME"])
    execute(f"alter database {name} reset search_path".replace("{", "{{"))
    connections.close_all()


def add_and_read() -> None:
    from django_graphile_worker import enqueue, enqueue_many
    from django_graphile_worker.models import Job, JobError, KeyConflict, KnownCrontab, Task, Worker

    first = enqueue("note", {"text": "one"}, job_key="k", queue_name="letters")
    again = enqueue("note", {"text": "two"}, job_key="k", queue_name="letters")
    assert (again.id, again.revision) == (first.id, first.revision + 1)
    found = enqueue("note", {"text": "no"}, job_key="k", job_key_mode="unsafe_dedupe")
    assert found.id == first.id
    assert len(enqueue_many([("note", {"text": "three"}), ("note", {"text": "four"})])) == 2
    execute("select id from {add_job}('note', '{{\"text\": \"five\"}}', queue_name := 'letters')")
    # The type of an argument is found by its schema only.
    execute(
        "select id from {add_jobs}(array[row('note', '{{\"text\": \"six\"}}', null, null, null,"
        " null, null, null)]::" + job_spec() + "[])"
    )
    assert Job.objects.with_names().due().count() == execute("select count(*) from {jobs}")[0][0]
    job: Any = Job.objects.with_names().get(pk=first.id)
    assert (job.task.identifier, job.task_identifier) == ("note", "note")
    assert (job.job_queue.queue_name, job.queue_name) == ("letters", "letters")
    assert json.loads(job.payload) == {"text": "two"}
    for model in (Task, KeyConflict, KnownCrontab, Worker, JobError):
        list(model.objects.all())


def job_spec() -> str:
    from django_graphile_worker.conf import get_config
    from django_graphile_worker.sql.loader import quote

    return f"{quote(get_config().schema)}.job_spec".replace("{", "{{").replace("}", "}}")


noted: list[str] = []
heard = threading.Event()


def run_jobs() -> None:
    from django.core.management import call_command

    from django_graphile_worker import enqueue, task
    from django_graphile_worker.models import Job, JobError

    @task
    def note(text: str) -> None:
        noted.append(text)

    @task
    async def fail() -> None:
        raise ValueError("no")

    enqueue("fail", queue_name="letters", max_attempts=1)
    call_command("graphile_worker", once=True, verbosity=0)
    assert sorted(noted) == ["five", "four", "six", "three", "two"], noted
    left = Job.objects.failed().get()
    assert left.last_error is not None
    assert "no" in left.last_error
    assert JobError.objects.get().job_id == left.pk
    assert execute("select count(*) from {_private_job_queues} where not is_available") == [(0,)]


def hear_of_a_job() -> None:
    """Only LISTEN can bring the job: the worker looks once an hour."""
    from django.core.management import call_command
    from django.db import connections

    from django_graphile_worker import enqueue, task
    from django_graphile_worker.signals import worker_started

    @task
    def be_heard() -> None:
        heard.set()

    started = threading.Event()

    def tell(**kwargs: Any) -> None:
        started.set()

    worker_started.connect(tell)

    def work() -> None:
        call_command("graphile_worker", max_jobs=1, poll_interval=3600.0, verbosity=0)
        connections.close_all()

    worker = threading.Thread(target=work)
    worker.start()
    assert started.wait(60)
    enqueue("be_heard")
    assert heard.wait(60)
    worker.join(60)
    assert not worker.is_alive()


def free_the_dead() -> None:
    """What others do when a worker is dead, and what one does for its own old locks."""
    from django.db import connection

    from django_graphile_worker import enqueue
    from django_graphile_worker.conf import get_config
    from django_graphile_worker.models import Job, JobQueue, Worker
    from django_graphile_worker.statements import workers

    schema = get_config().schema
    with connection.cursor() as cursor:
        for name in ("django:a", "django:b"):
            assert workers.register_worker(
                schema=schema,
                worker_id=name,
                host="h",
                pid=1,
                concurrency=1,
                heartbeat=5,
                stale_after=30,
            ).run(cursor)
        job = enqueue("nobody_serves", queue_name="letters")
        lock = "set locked_by = 'django:a', locked_at = now() - interval '3.5 h'"
        execute(f"update {{_private_jobs}} {lock} where id = %s", [job.id])
        execute(f"update {{_private_job_queues}} {lock} where queue_name = 'letters'")
        assert workers.beat(schema=schema, worker_ids=["django:a"]).run(cursor) == {"django:a"}
        assert workers.renew_locks(schema=schema, worker_ids=["django:a"]).run(cursor) == 1
        rescued = workers.rescue(schema=schema, worker_ids=["django:a"], by="django:b").run(cursor)
        assert (rescued.jobs, rescued.queues) == (1, 1), rescued
        assert Worker.objects.filter(dead_at=None).get().worker_id == "django:b"
    assert not Job.objects.locked().exists()
    assert not JobQueue.objects.filter(is_available=False).exists()


def operate() -> None:
    from django_graphile_worker import (
        complete_jobs,
        enqueue,
        force_unlock_workers,
        pause_queue,
        permanently_fail_jobs,
        remove_job,
        reschedule_jobs,
        resume_queue,
    )

    job = enqueue("nobody_serves", job_key="k")
    assert [done.id for done in permanently_fail_jobs([job.id], "enough")] == [job.id]
    assert [done.id for done in reschedule_jobs([job.id], attempts=0)] == [job.id]
    force_unlock_workers(["nobody"])
    assert pause_queue("letters")
    assert resume_queue("letters")
    removed = remove_job("k")
    assert removed is not None
    kept = enqueue("nobody_serves")
    assert [done.id for done in complete_jobs([kept.id])] == [kept.id]


def look_at_admin() -> None:
    """Each list, a search, and each row's own page; as somebody whom no table has to know."""
    from django.contrib import admin
    from django.contrib.auth.models import User
    from django.test import RequestFactory

    seen = 0
    for model, shown in admin.site._registry.items():
        if model._meta.app_label != "graphile_worker":
            continue
        for query in ({}, {"q": "nobody"}):
            request = RequestFactory().get("/", query, SERVER_NAME="localhost")
            request.user = User(username="a", is_superuser=True, is_staff=True, is_active=True)
            page: Any = shown.changelist_view(request)
            page.render()
            assert page.status_code == 200
        for row in shown.get_queryset(request):
            page = shown.changeform_view(request, str(row.pk))
            page.render()
            assert str(row) in page.content.decode()
            seen += 1
    assert seen >= 2, "there were no rows to look at"


def dump() -> None:
    from django.core.management import call_command

    text = StringIO()
    call_command("dumpdata", "graphile_worker", stdout=text)
    assert any(row["model"] == "graphile_worker.job" for row in json.loads(text.getvalue()))


def take_down() -> None:
    from django.core.management import call_command
    from django.db import connection

    from django_graphile_worker.conf import get_config
    from django_graphile_worker.exceptions import SchemaConflict

    try:
        call_command("migrate", "graphile_worker", "zero", verbosity=0)
    except SchemaConflict as error:
        assert repr(get_config().schema) in str(error)  # noqa: PT017
    else:
        raise AssertionError("jobs were dropped")
    execute("delete from {_private_jobs}")
    call_command("migrate", "graphile_worker", "zero", verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute("select from pg_namespace where nspname = %s", [get_config().schema])
        assert cursor.fetchall() == []
    connection.close()


if __name__ == "__main__":
    main()
