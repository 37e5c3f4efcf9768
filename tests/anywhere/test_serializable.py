"""A database where every transaction is serializable by default."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from io import StringIO

import pytest
from django.core.management import call_command
from django.db import connections
from pytest_django import DjangoDbBlocker

from django_graphile_worker import enqueue, enqueue_many
from tests.fresh import Fresh, InThread
from tests.worker.tools import register

COMMAND = "django_graphile_worker.management.commands.graphile_worker"
CALLERS = 2
CALLS = 25


@pytest.fixture
def serializable(fresh: Fresh) -> Fresh:
    fresh.run(f"alter database {fresh.name} set default_transaction_isolation = serializable")
    connections[fresh.alias].close()
    with connections[fresh.alias].cursor() as cursor:
        cursor.execute("show transaction_isolation")
        assert cursor.fetchone() == ("serializable",)
    return fresh


def test_it_installs_adds_and_runs(
    serializable: Fresh,
    in_thread: InThread,
    django_db_blocker: DjangoDbBlocker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    call_command("migrate", database="fresh", verbosity=0)
    serializable.migrate("zero")
    for run in [in_thread(serializable) for _ in range(3)]:
        run.result(timeout=60)

    def ask(number: int) -> int:
        with django_db_blocker.unblock():
            try:
                for call in range(CALLS):
                    enqueue("note", f"{number} {call}", using="fresh")
                    enqueue("note", "k", job_key=f"k{call % 3}", using="fresh")
                    many = [("note", f"{number} {call} {n}") for n in range(3)]
                    assert len(enqueue_many(many, using="fresh")) == 3
            finally:
                connections.close_all()
        return CALLS * 4

    with ThreadPoolExecutor(CALLERS) as pool:
        asked = sum(pool.map(ask, range(CALLERS)))
    ran: list[str] = []
    monkeypatch.setattr(f"{COMMAND}.registry", register(note=ran.append))
    call_command("graphile_worker", database="fresh", once=True, verbosity=0, stdout=StringIO())
    assert len([n for n in ran if not n.startswith("k")]) == asked
    assert serializable.rows("_private_jobs") == []
