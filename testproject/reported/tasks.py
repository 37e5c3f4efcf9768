"""The two tasks of the report: `scheduler` asks for `printer` by key, again and again.

The report's payload is `{key}`. Here it stands in an array, with a number of the request's own:
the queue joins arrays, so each number must sooner or later be carried by a run.
"""

from __future__ import annotations

import time
from typing import Any

from django.db import DatabaseError, transaction

from django_graphile_worker import EnqueuedJob, JobKeyMode, enqueue, requests, task, transactions
from django_graphile_worker.exceptions import JobNotStored
from django_graphile_worker.statements import jobs as statements
from testproject.reported.models import Batch, PrinterRun

LANES = 4
CALLS = 100
KEYS = 10

# Seconds of work of one printer.
WORK = 0.002

MODE = JobKeyMode.PRESERVE_RUN_AT


@task
def printer(wishes: list[dict[str, Any]]) -> None:
    """Work for about 2 ms, and note which requests that was for."""
    time.sleep(WORK)
    PrinterRun.objects.create(
        demonstration=wishes[0]["demonstration"], numbers=[wish["number"] for wish in wishes]
    )


@task
def scheduler(
    demonstration: str,
    lane: int,
    seconds: float,
    functions: str | None = None,
    batch: int = 0,
    until: float | None = None,
) -> None:
    """Make 100 calls of `add_job`, then leave it to the next run, for `seconds` from the first.

    `functions` is the schema of another `add_job`, by default it is the app's own.
    """
    if until is None:
        until = time.time() + seconds
    first = (batch * LANES + lane) * CALLS
    missing, failed, errors = [], [], []
    for number in range(first, first + CALLS):
        key = f"{demonstration}:{number % KEYS}"
        wish = {"key": key, "number": number, "demonstration": demonstration}
        try:
            # Outside of a transaction: each call commits by itself, as the report's did.
            job = add_job([wish], key, functions)
        except JobNotStored:
            missing.append(number)
        except DatabaseError as error:
            failed.append(number)
            errors.append(str(error).strip())
        else:
            if job.job_key != key:
                missing.append(number)
    with transaction.atomic():
        Batch.objects.create(
            demonstration=demonstration,
            first=first,
            calls=CALLS,
            missing=missing,
            failed=failed,
            errors=errors,
        )
        if time.time() < until:
            scheduler.enqueue(demonstration, lane, seconds, functions, batch + 1, until)


def add_job(payload: object, key: str, functions: str | None) -> EnqueuedJob:
    """Enqueue a printer: through the app, or with the very same statement on other functions."""
    if functions is None:
        return enqueue(printer, payload, job_key=key, job_key_mode=MODE)
    request = requests.make(printer, payload, {"job_key": key})
    return transactions.run(None, statements.add_job(request.spec, MODE, functions).run)
