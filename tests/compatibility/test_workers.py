"""A real Node worker runs our jobs, and our worker runs those of Node and of plain SQL."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from django_graphile_worker import enqueue, enqueue_many
from tests import catalog, node
from tests.compatibility.conftest import graphile_worker
from tests.conftest import Connect

pytestmark = pytest.mark.node

ROOT = Path(__file__).resolve().parents[2]

# Writes down what it is given, in the table that a test has made for it.
NODE_TASK = """
module.exports = async (payload, helpers) => {
  await helpers.query("insert into ran (worker, task, payload, job) values ('node', $1, $2, $3)", [
    helpers.job.task_identifier, JSON.stringify(payload), JSON.stringify(helpers.job)]);
  if (payload.fail) throw new Error("asked to");
};
"""

NODE_CALLER = """
const [, , library, connectionString, schema] = process.argv;
const { makeWorkerUtils } = require(library);
(async () => {
  const utils = await makeWorkerUtils({ connectionString, schema });
  await utils.migrate();
  await utils.addJob("note", { by: "node" }, { jobKey: "k", queueName: "q", flags: ["f"] });
  await utils.addJob("note", { by: "node, later" }, { jobKey: "k", jobKeyMode: "preserve_run_at" });
  await utils.addJobs([
    { identifier: "note", payload: { many: 1 } }, { identifier: "note", payload: [1, 2] }]);
  await utils.release();
})().catch((error) => { console.error(error); process.exit(1); });
"""

PYTHON_TASKS = """
from __future__ import annotations
import json
from django.db import connection
from django_graphile_worker import task

@task
def note(payload=None, **values):
    with connection.cursor() as cursor:
        cursor.execute("insert into ran (worker, task, payload) values ('django', 'note', %s)",
            [json.dumps(values or payload)])
"""


@pytest.fixture
def session(connect: Connect) -> Iterator[psycopg.Connection[Any]]:
    session = connect()
    session.execute("create table ran (worker text, task text, payload json, job json)")
    yield session
    session.execute("drop table ran")


@pytest.fixture
def node_folder(tmp_path: Path) -> Path:
    """Where a Node worker finds its tasks."""
    (tmp_path / "tasks").mkdir()
    for task in ("note", "send_letter"):
        (tmp_path / "tasks" / f"{task}.js").write_text(NODE_TASK)
    return tmp_path


def run_node_worker(folder: Path, dsn: str, schema: str) -> str:
    return graphile_worker(folder, "--once", "--connection", dsn, "--schema", schema)


def run_our_worker(folder: Path, dsn: str) -> str:
    """Run `manage.py graphile_worker --once` with an app that has the task `note`."""
    app = folder / "peer"
    app.mkdir()
    (app / "__init__.py").touch()
    (app / "tasks.py").write_text(PYTHON_TASKS)
    (folder / "peer_settings.py").write_text(
        "from testproject.settings import *\nINSTALLED_APPS = [*INSTALLED_APPS, 'peer']\n"
    )
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-m", "django", "graphile_worker", "--once"],
        env={
            **os.environ,
            "DATABASE_URL": dsn,
            "DJANGO_SETTINGS_MODULE": "peer_settings",
            "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


def bodies(session: psycopg.Connection[Any], schema: str) -> list[tuple[Any, ...]]:
    """What tells whether a function was replaced: its row, which changes with every write."""
    return session.execute(
        "select oid, xmin::text, md5(prosrc) from pg_proc"
        " where pronamespace = (select oid from pg_namespace where nspname = %s) order by oid",
        [schema],
    ).fetchall()


def ran(session: psycopg.Connection[Any]) -> list[tuple[str, str, Any]]:
    rows = session.execute("select worker, task, payload from ran").fetchall()
    return sorted(rows, key=str)


def count_jobs(session: psycopg.Connection[Any], schema: str) -> int:
    query = sql.SQL("select count(*) from {}").format(sql.Identifier(schema, "_private_jobs"))
    row = session.execute(query).fetchone()
    assert row is not None
    return int(row[0])


def test_a_node_worker_finds_nothing_to_migrate(
    session: psycopg.Connection[Any], node_folder: Path, dsn: str, schema: str
) -> None:
    before = bodies(session, schema), catalog.describe(session, schema)
    revisions = sql.SQL("select * from {} order by 1").format(sql.Identifier(schema, "migrations"))
    recorded = session.execute(revisions).fetchall()
    run_node_worker(node_folder, dsn, schema)
    graphile_worker(node_folder, "--schema-only", "--connection", dsn, "--schema", schema)
    assert (bodies(session, schema), catalog.describe(session, schema)) == before
    assert session.execute(revisions).fetchall() == recorded


def test_a_node_worker_runs_what_python_enqueues(
    session: psycopg.Connection[Any], node_folder: Path, dsn: str, schema: str
) -> None:
    payload = {"to": "a@b", "text": 'schön \\ "', "deep": [1, {"x": None}], "big": 2**53}
    enqueue("send_letter", payload, job_key="letter-7", queue_name="letters", priority=-3)
    enqueue_many([("note", {"n": 1}), ("note", {"n": 2})])
    run_node_worker(node_folder, dsn, schema)
    assert ran(session) == [
        ("node", "note", {"n": 1}),
        ("node", "note", {"n": 2}),
        ("node", "send_letter", payload),
    ]
    job = session.execute("select job from ran where task = 'send_letter'").fetchone()
    assert job is not None
    assert (job[0]["key"], job[0]["priority"], job[0]["attempts"]) == ("letter-7", -3, 1)
    assert count_jobs(session, schema) == 0


def test_what_fails_in_node_stays_for_the_next_try(
    session: psycopg.Connection[Any], node_folder: Path, dsn: str, schema: str
) -> None:
    job = enqueue("note", {"fail": True}, queue_name="q")
    run_node_worker(node_folder, dsn, schema)
    query = sql.SQL("select id, attempts, last_error, locked_by, run_at > now() from {}").format(
        sql.Identifier(schema, "_private_jobs")
    )
    ((pk, attempts, error, locked_by, later),) = session.execute(query).fetchall()
    assert (pk, attempts, locked_by, later) == (job.id, 1, None, True)
    assert "asked to" in error
    queues = sql.SQL("select queue_name, locked_by from {}").format(
        sql.Identifier(schema, "_private_job_queues")
    )
    assert session.execute(queues).fetchall() == [("q", None)]


def test_our_worker_runs_what_node_adds(
    session: psycopg.Connection[Any], tmp_path: Path, dsn: str, schema: str
) -> None:
    cli = node.graphile_worker()
    assert cli is not None
    script = tmp_path / "caller.js"
    script.write_text(NODE_CALLER)
    before = bodies(session, schema)
    subprocess.run(
        [str(node.node()), str(script), str(cli.parent / "index.js"), dsn, schema],
        check=True,
        timeout=60,
    )
    assert bodies(session, schema) == before
    run_our_worker(tmp_path, dsn)
    assert ran(session) == [
        ("django", "note", [1, 2]),
        ("django", "note", {"by": "node, later"}),
        ("django", "note", {"many": 1}),
    ]
    assert count_jobs(session, schema) == 0


def test_our_worker_runs_what_plain_sql_adds(
    session: psycopg.Connection[Any], tmp_path: Path, dsn: str, schema: str
) -> None:
    for call in (
        "{}('note', '{{\"by\": \"sql\"}}', queue_name := 'q')",
        "{}('note', '[\"a batch\"]')",
        "{}('nobody', '{{}}')",
    ):
        statement = sql.SQL("select from " + call).format(sql.Identifier(schema, "add_job"))
        session.execute(statement)
    run_our_worker(tmp_path, dsn)
    assert ran(session) == [("django", "note", ["a batch"]), ("django", "note", {"by": "sql"})]
    # A task that nobody here knows is left to the worker that does.
    assert count_jobs(session, schema) == 1


def test_jobs_go_from_one_to_the_other_and_back(
    session: psycopg.Connection[Any], node_folder: Path, dsn: str, schema: str
) -> None:
    """A job that failed in Node is run by our worker, in the same named queue."""
    enqueue("note", {"fail": True}, queue_name="q", job_key="k")
    run_node_worker(node_folder, dsn, schema)
    due = sql.SQL("update {} set run_at = now()").format(sql.Identifier(schema, "_private_jobs"))
    session.execute(due)
    run_our_worker(node_folder, dsn)
    assert ran(session) == [
        ("django", "note", {"fail": True}),
        ("node", "note", {"fail": True}),
    ]
    assert count_jobs(session, schema) == 0


def test_a_node_worker_hears_of_what_python_commits(
    session: psycopg.Connection[Any], dsn: str, schema: str
) -> None:
    session.execute('listen "jobs:insert"')
    enqueue("note", {"n": 1})
    (heard,) = session.notifies(timeout=10, stop_after=1)
    assert json.loads(heard.payload)["count"] == 1
