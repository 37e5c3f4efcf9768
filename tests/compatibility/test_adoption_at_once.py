"""Several installers at once, and one that comes later and replaces our functions."""

from __future__ import annotations

import io
import logging
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import Tags, run_checks
from django.core.management import CommandError, call_command
from psycopg import sql

from django_graphile_worker.operations import published
from tests.compatibility.adopting import definitions, make, revisions, states
from tests.compatibility.fleet import READY
from tests.compatibility.test_adopted_fleet import Peers
from tests.compatibility.test_adopted_fleet import peers as peers
from tests.fresh import SCHEMA, Fresh, InThread, Manage
from tests.waiting import eventually

pytestmark = pytest.mark.node

WITHIN = 60


def schema(*arguments: str) -> tuple[int, str]:
    """The command's exit code, and what it prints."""
    said = io.StringIO()
    try:
        call_command("graphile_worker_schema", *arguments, stdout=said)
    except SystemExit as ended:
        return int(str(ended.code)), said.getvalue()
    return 0, said.getvalue()


def begin_anew(fresh: Fresh) -> None:
    fresh.run("drop schema if exists {} cascade")
    fresh.run("delete from django_migrations where app = 'graphile_worker'")


def test_five_migrations_and_a_starting_node_worker_all_end_well(
    fresh: Fresh, peers: Peers, in_thread: InThread, request: pytest.FixtureRequest
) -> None:
    # Django itself may fail where several runs make its own tables; those are there already.
    call_command("migrate", database="fresh", verbosity=0)
    rounds = int(request.config.getoption("--adoption-rounds"))
    for number in range(rounds):
        begin_anew(fresh)
        # Now one is ahead and now the other.
        peer = peers.worker("0.18") if number % 2 else None
        runs = [in_thread(fresh) for _ in range(5)]
        peer = peer or peers.worker("0.18")
        for run in runs:
            run.result(timeout=WITHIN)
        peer.wait_for(READY)
        peer.stop()
        assert fresh.run("select max(id), count(*) from {}.migrations") == [(20, 20)]
        assert states(fresh) == {"ours"}
        assert len(fresh.rows("django_installation")) == 1


@pytest.fixture
def overwritten(fresh: Fresh, peers: Peers, tmp_path: Path) -> Fresh:
    """A schema that was adopted at 18, and where 0.18 has started since."""
    make(fresh, "0.16", tmp_path)
    fresh.migrate()
    assert revisions(fresh) == [(18, False)]
    peer = peers.worker("0.18")
    peer.wait_for(READY)
    peer.stop()
    assert [number for number, _ in revisions(fresh)] == [18, 19, 20]
    assert "replaced" in states(fresh)
    return fresh


def warnings(fresh: Fresh) -> list[str]:
    found = run_checks(tags=[Tags.database], databases=[fresh.alias])
    return [str(message) for message in found if message.id == "graphile_worker.W001"]


def test_it_is_told_and_repaired(overwritten: Fresh) -> None:
    theirs = definitions(overwritten)
    with overwritten.connect() as session, session.cursor() as cursor:
        found = published.statement().run(cursor)
    replaced = {function.name for function in found if function.state == "replaced"}
    (warning,) = warnings(overwritten)
    assert "add_jobs (replaced)" in warning
    assert "graphile_worker_schema --repair" in warning
    code, said = schema()
    assert code == 1
    assert "adopted, revision 20" in said
    assert "  add_jobs: replaced\n" in said
    assert schema("--verify")[0] == 1
    assert "fresh: function add_jobs is replaced" in schema("--verify")[1]

    code, said = schema("--repair")
    assert code == 0
    assert "add_jobs" in said
    assert states(overwritten) == {"ours"}
    assert warnings(overwritten) == []
    assert schema("--verify") == (0, "")
    assert schema("--repair") == (0, "fresh: nothing to repair\n")
    # The way back gives what stood there last.
    overwritten.migrate("zero")
    after = definitions(overwritten)
    assert [name for name in replaced if after[name] != theirs[name]] == []


def test_migrate_repairs(overwritten: Fresh) -> None:
    overwritten.migrate()
    assert states(overwritten) == {"ours"}


def test_a_worker_tells_at_its_start(overwritten: Fresh, manage: Manage) -> None:
    here = {"GRAPHILE_WORKER_SCHEMA": SCHEMA}
    said = manage(overwritten, "graphile_worker", "--once", **here)
    assert "Not the functions of this package are in the schema: " in said
    assert "add_jobs (replaced)" in said
    overwritten.migrate()
    assert "Not the functions" not in manage(overwritten, "graphile_worker", "--once", **here)


def test_a_schema_at_18_can_be_raised(
    fresh: Fresh, peers: Peers, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make(fresh, "0.16", tmp_path)
    fresh.migrate()
    listening = fresh.connect()
    # Not as the last that it has done: then it would be taken for a worker.
    listening.execute('listen "worker:migrate"')
    listening.execute("select")
    assert schema("--raise") == (0, "fresh: revision 18, now 20\n")
    assert revisions(fresh) == [(18, False), (19, True), (20, False)]
    told = [notify.payload for notify in listening.notifies(timeout=10, stop_after=2)]
    assert told == [
        '{"migrationNumber" : 19, "breaking" : true}',
        '{"migrationNumber" : 20, "breaking" : false}',
    ]
    assert schema("--raise") == (0, "fresh: at revision 20\n")
    with caplog.at_level(logging.INFO):
        peer = peers.worker("0.18")
        peer.wait_for(READY)
        peer.stop()
    assert states(fresh) == {"ours"}


def test_it_is_not_raised_beside_an_old_worker(fresh: Fresh, peers: Peers, tmp_path: Path) -> None:
    make(fresh, "0.16", tmp_path)
    fresh.migrate()
    peer = peers.worker("0.16")
    peer.wait_for(READY)
    # It begins to listen on a connection of its own, a little before or after it says so.
    eventually(lambda: _listen(fresh, 1), WITHIN)
    _is_refused("sessions that listen as Node's workers do: 1")
    assert revisions(fresh) == [(18, False)]
    peer.stop()
    eventually(lambda: _listen(fresh, 0), WITHIN)

    fresh.run("select {}.add_job('note', '[]')")
    fresh.run("update {}._private_jobs set locked_at = now(), locked_by = 'worker-elsewhere'")
    _is_refused("none of our workers: worker-elsewhere")
    fresh.run("update {}._private_jobs set locked_at = now() - interval '4 hours'")
    assert schema("--raise") == (0, "fresh: revision 18, now 20\n")


def _listen(fresh: Fresh, sessions: int) -> None:
    found = fresh.run(
        "select pid from pg_stat_activity where datname = current_database() and query like %s",
        'LISTEN "jobs:insert"%',
    )
    assert len(found) == sessions


def _is_refused(why: str) -> None:
    with pytest.raises(CommandError, match="seem to be at work") as refused:
        schema("--raise")
    assert why in str(refused.value)


def test_it_is_raised_beside_others_where_one_insists(fresh: Fresh, tmp_path: Path) -> None:
    make(fresh, "0.16", tmp_path)
    fresh.migrate()
    fresh.run("select {}.add_job('note', '[]')")
    fresh.run("update {}._private_jobs set locked_at = now(), locked_by = 'worker-elsewhere'")
    with pytest.raises(CommandError, match="--force goes with --raise only"):
        schema("--force")
    assert schema("--raise", "--force") == (0, "fresh: revision 18, now 20\n")


def test_a_revision_that_is_not_nodes_is_not_raised(fresh: Fresh, tmp_path: Path) -> None:
    make(fresh, "rust", tmp_path)
    fresh.run("delete from {}.migrations where id = 20")
    fresh.migrate()
    with pytest.raises(CommandError, match=r"revision 19 that .* for Node has not made"):
        schema("--raise", "--force")
    assert revisions(fresh) == [(18, False), (19, False)]


def test_what_is_not_there_is_told(fresh: Fresh, settings: Any) -> None:
    code, said = schema()
    assert (code, "not installed, revision none" in said) == (1, True)
    assert schema("--verify") == (
        1,
        f"fresh: schema '{SCHEMA}' is not installed: migrate graphile_worker\n",
    )
    for what in ("--repair", "--raise"):
        with pytest.raises(CommandError, match="migrate graphile_worker first"):
            schema(what)
    with pytest.raises(CommandError, match="does not name 'default'"):
        schema("--database", "default")
    assert warnings(fresh) == []


def test_one_that_we_installed_is_well(fresh: Fresh) -> None:
    fresh.migrate()
    assert schema("--verify") == (0, "")
    assert schema("--raise") == (0, "fresh: at revision 20\n")
    name = sql.Identifier(SCHEMA).as_string(fresh.connect())
    fresh.run(f"drop function {name}.remove_job(text)")
    assert schema("--verify") == (1, "fresh: function remove_job is missing\n")
    assert schema("--repair") == (0, "fresh: put back: remove_job\n")
    assert schema("--verify") == (0, "")
