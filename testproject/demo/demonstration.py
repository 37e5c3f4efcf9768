"""One demonstration in a database: start it, see how far it is, read its record.

Imported only when Django is set up. Everything that a demonstration leaves carries its name, so
that a database of somebody's own may hold several.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass

from django.db import connection, transaction
from django.db.models import Max, Min, Q, QuerySet

from django_graphile_worker import complete_jobs
from django_graphile_worker.conf import get_config
from django_graphile_worker.models import Job, KeyConflict
from testproject import uncorrected
from testproject.demo.verdict import Calls, Verdict, judge
from testproject.reported.models import Batch, PrinterRun
from testproject.reported.tasks import LANES, scheduler

# Seconds that the server may take to see the worker's sessions end.
PATIENCE = 5.0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a demonstration is. `left` are the jobs that wait or run."""

    calls: int
    missing: int
    runs: int
    supersedings: int | None
    left: int


class Demonstration:
    """The workload for `seconds`; on the fault's shape if `variant` names one."""

    def __init__(self, seconds: float, variant: str | None) -> None:
        self.name = secrets.token_hex(4)
        self._seconds = seconds
        self._variant = variant
        # A schema of its own for each: it is made and dropped, and somebody's must not be.
        self._functions = None if variant is None else f"uncorrected_{self.name}"
        self._sessions = sessions()
        self._deadlocks = deadlocks()

    def start(self) -> None:
        """Leave the first four schedulers in the queue; whatever else happens, they cause."""
        with transaction.atomic():
            if self._variant is not None and self._functions is not None:
                schema = get_config().schema
                uncorrected.install(connection, schema, self._variant, self._functions)
            for lane in range(LANES):
                scheduler.enqueue(self.name, lane, self._seconds, self._functions)

    def end(self) -> None:
        """Take away the jobs, if any are left, and the fault's functions. The record stays."""
        if left := list(self._jobs().values_list("pk", flat=True)):
            complete_jobs(left)
        if self._functions is not None:
            uncorrected.uninstall(connection, self._functions)

    def progress(self) -> Progress:
        calls = self._calls()
        return Progress(
            calls=sum(len(batch.numbers) for batch in calls),
            missing=sum(len(batch.missing) for batch in calls),
            runs=PrinterRun.objects.filter(demonstration=self.name).count(),
            supersedings=self._supersedings(),
            left=self._jobs().filter(Q(is_available=True) | Q(locked_at__isnull=False)).count(),
        )

    def verdict(self) -> Verdict:
        """Judge the record; the worker must have ended."""
        self._wait_for_sessions()
        runs = PrinterRun.objects.filter(demonstration=self.name)
        times = runs.aggregate(first=Min("at"), last=Max("at"))
        return judge(
            self._calls(),
            runs.values_list("numbers", flat=True),
            deadlocks=deadlocks() - self._deadlocks,
            supersedings=self._supersedings(),
            seconds=(times["last"] - times["first"]).total_seconds() if times["first"] else 0,
        )

    def errors(self) -> list[str]:
        """The texts of the errors that calls have raised, each once."""
        batches = Batch.objects.filter(demonstration=self.name).values_list("errors", flat=True)
        return sorted({error for errors in batches for error in errors})

    def _jobs(self) -> QuerySet[Job]:
        return Job.objects.filter(payload__contains=self.name)

    def _calls(self) -> list[Calls]:
        rows = Batch.objects.filter(demonstration=self.name)
        return [
            Calls(
                range(row.first, row.first + row.calls),
                frozenset(row.missing),
                frozenset(row.failed),
            )
            for row in rows
        ]

    def _supersedings(self) -> int | None:
        if self._variant is not None:
            return None
        return KeyConflict.objects.filter(key__startswith=f"{self.name}:").count()

    def _wait_for_sessions(self) -> None:
        """Wait until the worker's sessions are gone: only then have they told their deadlocks."""
        deadline = time.monotonic() + PATIENCE
        while sessions() - self._sessions and time.monotonic() < deadline:
            time.sleep(0.05)


def sessions() -> set[int]:
    """The backends of all other sessions on this database."""
    with connection.cursor() as cursor:
        cursor.execute(
            "select pid from pg_stat_activity where datname = current_database()"
            " and backend_type = 'client backend' and pid <> pg_backend_pid()"
        )
        return {pid for (pid,) in cursor.fetchall()}


def deadlocks() -> int:
    """How many deadlocks PostgreSQL has ended in this database so far.

    Counted there and not by the errors: outside of a transaction, `enqueue` tries again by itself.
    """
    with connection.cursor() as cursor:
        cursor.execute("select deadlocks from pg_stat_database where datname = current_database()")
        (count,) = cursor.fetchone()
        return int(count)
