"""Both announce the same on the same channels, so that any worker hears of any caller's jobs."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from tests.compatibility.cases import specs
from tests.compatibility.conftest import Both

pytestmark = pytest.mark.node

END = "the end"

LOCK = "update graphile_worker._private_jobs set locked_at = now(), locked_by = 'w', attempts = 1"
FREE = "update graphile_worker._private_jobs set locked_at = null, locked_by = null"
IDS = "(select array_agg(id) from graphile_worker._private_jobs)"

# In this order, each in a transaction of its own.
CALLS = {
    "add_job": "add_job('t')",
    "add_job with a key": "add_job('t', job_key := 'k')",
    "add_job over a free job": "add_job('t', job_key := 'k')",
    "preserve_run_at over a free job": "add_job('t', null, null, null, null, 'k', null, null,"
    " 'preserve_run_at')",
    "add_job for later": "add_job('t', run_at := now() + interval '1 day')",
    "unsafe_dedupe, the first": "add_job('t', job_key := 'd', job_key_mode := 'unsafe_dedupe')",
    "unsafe_dedupe again": "add_job('t', job_key := 'd', job_key_mode := 'unsafe_dedupe')",
    "add_jobs": "add_jobs("
    + specs(*[f"'t', null, null, null, null, {key}, null, null" for key in ("null", "'k'", "'l'")])
    + ")",
    "add_jobs of none": "add_jobs(array[]::graphile_worker.job_spec[])",
    "reschedule_jobs": f"reschedule_jobs({IDS}, run_at := now())",
    "permanently_fail_jobs": f"permanently_fail_jobs({IDS}, 'no')",
    "add_job over a failed job": "add_job('t', job_key := 'k')",
    "remove_job of a free job": "remove_job('k')",
    "remove_job of none": "remove_job('missing')",
    "add_job, to be locked": "add_job('t', job_key := 'k')",
    "locking": LOCK,
    "add_job over a locked job": "add_job('t', job_key := 'k')",
    "locking again": LOCK,
    "remove_job of a locked job": "remove_job('k')",
    "force_unlock_workers": "force_unlock_workers(array['w'])",
    "freeing": FREE,
    "complete_jobs": f"complete_jobs({IDS})",
}


def heard(listener: psycopg.Connection[Any], caller: psycopg.Connection[Any]) -> list[object]:
    """What is announced by each call: channel, names and values of the payload."""
    told: list[object] = []
    for name, call in CALLS.items():
        caller.execute(
            (call if call.startswith("update") else f"select from graphile_worker.{call}").encode()
        )
        caller.execute("select pg_notify('jobs:insert', %s)", [END])
        for notification in listener.notifies(timeout=10):
            if notification.payload == END:
                break
            if not notification.payload:
                told.append((name, notification.channel, None))
                continue
            payload = json.loads(notification.payload)
            random = payload.pop("r")
            assert isinstance(random, float)
            assert 0 <= random < 1
            told.append((name, notification.channel, payload))
        else:
            raise AssertionError(f"{name}: nothing was heard")
    return told


def test_both_announce_the_same(both: Both) -> None:
    told = []
    for side in both:
        with (
            psycopg.connect(side.address, autocommit=True) as listener,
            psycopg.connect(side.address, autocommit=True) as caller,
        ):
            for channel in ("jobs:insert", "worker:migrate"):
                listener.execute(f'listen "{channel}"'.encode())
            try:
                told.append(heard(listener, caller))
            finally:
                caller.execute("delete from graphile_worker._private_jobs")
    ours, theirs = told
    # Theirs announces an empty text for no jobs, which tells nobody anything.
    theirs.remove(("add_jobs of none", "jobs:insert", None))
    assert ours == theirs
    assert len(ours) > 8
