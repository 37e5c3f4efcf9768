"""Schemas that another installer has made, with jobs in every state in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django_graphile_worker.operations import published
from tests.compatibility.conftest import graphile_worker
from tests.fresh import SCHEMA, Fresh

TABLES = ("_private_jobs", "_private_job_queues", "_private_tasks", "_private_known_crontabs")

# By the functions that stand there, and then by hand what only a worker makes.
JOBS = """
select {}.add_job('note', '{{"n": 1}}');
select {}.add_job('note', '{{"n": 2}}', queue_name := 'lane', priority := -3, flags := array['f']);
select {}.add_job('note', '{{"n": 3}}', job_key := 'k', max_attempts := 7);
select {}.add_job('note', '{{"n": 3}}', job_key := 'k', max_attempts := 7);
select {}.add_job('note', '{{"n": 4}}', run_at := now() + '1 year');
select {}.add_job('batch', '[{{"n": 5, "fails_in": []}}]', job_key := 'batch');
select {}.add_job('note', '{{"n": 6}}', job_key := 'failed', max_attempts := 3);
select {}.add_job('note', '{{"n": 7}}');
select {}.add_job('note', '{{"n": 8}}', queue_name := 'held', job_key := 'running');
update {}._private_jobs set attempts = 3, last_error = 'asked to' where key = 'failed';
update {}._private_jobs set attempts = 1, last_error = 'again', run_at = now() + '1 hour'
  where payload->>'n' = '7';
update {}._private_jobs set attempts = 1, locked_at = now(), locked_by = 'pool-elsewhere'
  where key = 'running';
update {}._private_job_queues set locked_at = now(), locked_by = 'pool-elsewhere'
  where queue_name = 'held';
insert into {}._private_known_crontabs values ('daily', now() - interval '1 day', now())
"""

# What the Rust crate leaves, by its description: revisions of its own, which are not breaking, a
# table of its workers, and functions of its own names. It was not run here.
RUST = """
insert into {}.migrations (id, breaking) values (19, false), (20, false);
create table {}._private_workers (id text primary key, seen timestamptz not null default now());
create function {}.worker_heartbeat(id text) returns void language sql as 'select null';
insert into {}._private_workers values ('rust-1')
"""


def make(fresh: Fresh, version: str, folder: Path) -> None:
    """Let a version of Graphile Worker, or what the Rust crate adds to one, make the schema."""
    graphile_worker(
        folder,
        *("--schema-only", "--connection", fresh.url, "--schema", SCHEMA),
        version="0.16" if version == "rust" else version,
    )
    if version == "rust":
        fresh.run(RUST)
    # It was made long ago, as far as anybody can see.
    fresh.run("update {}.migrations set ts = now() - interval '1 day'")


def rows(fresh: Fresh) -> dict[str, list[tuple[Any, ...]]]:
    return {table: fresh.rows(table) for table in TABLES}


def revisions(fresh: Fresh) -> list[tuple[int, bool]]:
    return fresh.run("select id, breaking from {}.migrations where id > 17 order by id")


def definitions(fresh: Fresh) -> dict[str, str]:
    """Each of the seven functions, with what its owner has set on it."""
    found = fresh.run(
        "select proname::text, pg_get_functiondef(oid) from pg_proc"
        " where pronamespace = %s::regnamespace and proname = any(%s)",
        SCHEMA,
        published.NAMES,
    )
    return dict(found)


def states(fresh: Fresh) -> set[str]:
    """In which states the seven are."""
    with fresh.connect() as session, session.cursor() as cursor:
        return {function.state for function in published.statement().run(cursor)}
