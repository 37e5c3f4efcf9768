"""`migrate`, of whichever app, puts back functions of ours that another has replaced."""

from __future__ import annotations

import logging

import pytest
from django.core.management import call_command
from pytest_django import Settings

from tests.fresh import Fresh, aliased, hold_queue

REPLACE = (
    "create or replace function {}.remove_job(job_key text) returns {}._private_jobs"
    " language sql strict as 'select null::{}._private_jobs'"
)


def remove_job(fresh: Fresh) -> str:
    ((body,),) = fresh.run("select prosrc from pg_proc where proname = 'remove_job'")
    return str(body)


def test_a_migration_of_another_app_mends(fresh: Fresh) -> None:
    fresh.migrate()
    ours = remove_job(fresh)
    fresh.run(REPLACE)
    assert remove_job(fresh) != ours
    call_command("migrate", "contenttypes", database="fresh", verbosity=0)
    assert remove_job(fresh) == ours


@pytest.mark.parametrize(
    ("may", "why"), [("look", "The schema 'graphile_worker'"), ("do nothing", "permission denied")]
)
def test_who_may_not_mend_can_still_migrate_another_app(
    fresh: Fresh, settings: Settings, caplog: pytest.LogCaptureFixture, may: str, why: str
) -> None:
    call_command("migrate", "contenttypes", database="fresh", verbosity=0)
    fresh.migrate()
    fresh.run(REPLACE)
    theirs, other = remove_job(fresh), fresh.make_role()
    fresh.run(
        f"grant all on schema public to {other};"
        f" grant all on all tables in schema public to {other};"
        f" grant all on all sequences in schema public to {other}"
    )
    if may == "look":
        fresh.run(
            f"grant usage on schema {{}} to {other};"
            f" grant select on all tables in schema {{}} to {other}"
        )
    with aliased("other", NAME=fresh.name, OPTIONS={"assume_role": other}):
        hold_queue(settings, "other")
        with caplog.at_level(logging.WARNING, "graphile_worker"):
            call_command("migrate", "contenttypes", database="other", verbosity=0)
    assert remove_job(fresh) == theirs
    assert f"could not be seen to: {why}" in caplog.text
