"""What a project with tenants does with the queue; run with `-m`, as `manage.py` would be."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager, nullcontext
from io import StringIO
from typing import Any


def in_tenant(context: Any) -> AbstractContextManager[Any]:
    """The `JOB_WRAPPER`: run a job in the tenant that its payload names, if it does."""
    from django_tenants.utils import schema_context

    tenant = context.payload.get("tenant")
    manager: AbstractContextManager[Any] = schema_context(tenant) if tenant else nullcontext()
    return manager


def main() -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.anywhere.tenants_settings"
    import django
    from asgiref.sync import sync_to_async

    django.setup()
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from django.db import connection as plain
    from django_tenants.utils import schema_context

    from django_graphile_worker import enqueue, install_schema, task
    from django_graphile_worker.conf import get_config
    from django_graphile_worker.models import Job
    from tests.anywhere.customers.models import Client

    connection: Any = plain  # which knows the tenant

    @task
    def greet(tenant: str, name: str) -> None:
        User.objects.create(username=name, first_name=tenant)

    @task
    async def agreet(tenant: str, name: str) -> None:
        # A tenant is chosen for the connection of one thread, so where the queries are made.
        await sync_to_async(in_its_thread)(tenant, name)

    def in_its_thread(tenant: str, name: str) -> None:
        with schema_context(tenant):
            User.objects.create(username=name, first_name=tenant)

    @task
    def forget(left: str) -> None:
        connection.set_schema(left)
        assert not User.objects.filter(username="nobody").exists()

    @task
    def look() -> None:
        seen.append(connection.schema_name)

    seen: list[str] = []

    call_command("migrate_schemas", shared=True, run_syncdb=True, verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute("select nspname from pg_namespace where nspname = %s", [get_config().schema])
        assert cursor.fetchall()
    tenants = ("one", "two")
    for name in tenants:
        Client.objects.create(schema_name=name, name=name)  # makes and migrates its schema
    for _ in range(2):
        call_command("migrate_schemas", verbosity=0)

    # Asked for from within a tenant, it is in the one queue all the same.
    for name in tenants:
        with schema_context(name):
            enqueue("greet", {"tenant": name, "name": "sync"}, queue_name="letters")
            enqueue("agreet", {"tenant": name, "name": "async"})
            enqueue("greet", {"tenant": name, "name": "more"}, job_key=name)
            enqueue("forget", {"left": name})
            enqueue("look")
            assert Job.objects.exists()
    with schema_context("one"):
        call_command("graphile_worker", once=True, concurrency=1, verbosity=0, stdout=StringIO())
    assert not Job.objects.exists(), list(Job.objects.values_list("last_error", flat=True))
    assert seen == ["public", "public"]
    for name in tenants:
        with schema_context(name):
            found = User.objects.order_by("username").values_list("username", "first_name")
            assert list(found) == [("async", name), ("more", name), ("sync", name)], list(found)

    # What goes backwards in a tenant takes nothing from the others.
    call_command("migrate_schemas", "graphile_worker", "zero", schema_name="one", verbosity=0)
    assert enqueue("greet", {"tenant": "two", "name": "last"}).id
    install_schema()
    Job.objects.get()
    connection.close()
    sys.stdout.write("ALL WELL\n")


if __name__ == "__main__":
    main()
