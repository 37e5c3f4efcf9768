"""`migrate` adopts a schema that Graphile Worker has made, with all its jobs, and gives it back."""

from __future__ import annotations

from pathlib import Path

import pytest

from django_graphile_worker import install_schema
from django_graphile_worker.exceptions import SchemaConflict
from tests import catalog
from tests.compatibility.adopting import (
    JOBS,
    definitions,
    make,
    revisions,
    rows,
    states,
)
from tests.fresh import SCHEMA, Fresh

pytestmark = pytest.mark.node

ORIGINS = ("0.16", "0.17", "0.18", "rust")

# What is recorded above 17, before and after.
BEFORE = {
    "0.16": [(18, False)],
    "0.17": [(18, False), (19, True)],
    "0.18": [(18, False), (19, True), (20, False)],
    "rust": [(18, False), (19, False), (20, False)],
}
AFTER = {**BEFORE, "0.17": BEFORE["0.18"]}


@pytest.fixture(params=ORIGINS)
def origin(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def made(fresh: Fresh, origin: str, tmp_path: Path) -> Fresh:
    """A database with a schema that was made so, and jobs in it."""
    make(fresh, origin, tmp_path)
    fresh.run(JOBS)
    return fresh


def test_everything_stays_and_the_functions_are_ours(made: Fresh, origin: str) -> None:
    before, facts = rows(made), made.facts()
    assert len(before["_private_jobs"]) == 8
    assert revisions(made) == BEFORE[origin]
    assert states(made) == {"replaced"}

    made.migrate()

    assert rows(made) == before
    assert revisions(made) == AFTER[origin]
    assert states(made) == {"ours"}
    assert made.rows("django_installation")[0][2] == "adopted"
    shared = {name: fact for name, fact in made.facts().items() if not catalog.is_ours(name)}
    differences = catalog.differences(facts, shared)
    assert [line for line in differences if not line.startswith("setting add_jobs(")] == []


def test_the_way_back_leaves_it_as_it_was(made: Fresh, origin: str) -> None:
    facts, bodies = made.facts(), definitions(made)
    made.migrate()
    before = rows(made)
    made.migrate("zero")
    assert rows(made) == before
    assert made.facts() == facts
    assert definitions(made) == bodies
    # And forth again.
    made.migrate()
    assert states(made) == {"ours"}
    assert rows(made) == before


def test_without_migrations_too(made: Fresh) -> None:
    before = rows(made)
    install_schema(using=made.alias)
    install_schema(using=made.alias)
    assert states(made) == {"ours"}
    assert rows(made) == before


def test_what_its_owner_has_set_stays(fresh: Fresh, tmp_path: Path) -> None:
    make(fresh, "0.16", tmp_path)
    owner, caller = fresh.make_role(), fresh.make_role()
    name = "{}.add_job(text, json, text, timestamptz, int, text, int, text[], text)"
    fresh.run(
        f"alter schema {{}} owner to {owner};"
        + "".join(
            f"alter table {{}}.{table} owner to {owner};"
            for table in ("_private_jobs", "_private_job_queues", "_private_tasks", "migrations")
        )
        + f"alter table {{}}._private_known_crontabs owner to {owner};"
        f"alter view {{}}.jobs owner to {owner};"
    )
    for function in fresh.run(
        "select oid::regprocedure::text from pg_proc where pronamespace = %s::regnamespace", SCHEMA
    ):
        fresh.run(f"alter function {function[0]} owner to {owner}")
    fresh.run(
        f"revoke execute on function {name} from public;"
        f"grant execute on function {name} to {caller};"
        f"grant usage on schema {{}} to {caller};"
        f"alter function {name} security definer;"
        f"alter function {name} set search_path to 'pg_catalog', \"odd, name\", pg_temp;"
        f"alter function {name} set statement_timeout to '7s'"
    )
    facts, bodies = fresh.facts(), definitions(fresh)

    fresh.migrate()

    assert states(fresh) == {"ours"}
    for name, fact in facts.items():
        if "add_job(" in name:
            assert fresh.facts()[name] == fact
    made = definitions(fresh)["add_job"]
    for line in bodies["add_job"].partition("\nAS ")[0].splitlines():
        if line.startswith((" SECURITY", " SET")):
            assert line in made.splitlines()
    # Whoever could call it still can, and is recorded in a table that is the owner's.
    for _ in range(2):
        fresh.run(
            f"set role {caller}; select id from {{}}.add_job('note', '[1]', job_key := 'k');"
            " reset role; update {}._private_jobs set locked_at = now(), locked_by = 'w'"
        )
    assert len(fresh.rows("django_key_conflicts")) == 1
    owners = fresh.run(
        "select distinct relowner::regrole::text from pg_class"
        " where relnamespace = %s::regnamespace and relkind in ('r', 'v')",
        SCHEMA,
    )
    assert owners == [(owner,)]
    fresh.migrate("zero")
    assert definitions(fresh) == bodies


REFUSED = {
    "too old": (
        "delete from {}.migrations where id > 17",
        "revision 17.*can be adopted from revision 18",
    ),
    "newer and breaking": (
        "insert into {}.migrations (id, breaking, ts) values (21, true, now() - interval '1 day')",
        "knows revisions up to 20: upgrade",
    ),
    "newer and breaking before": (
        "insert into {}.migrations (id, breaking, ts) values"
        " (21, true, now() - interval '1 day'), (22, false, now() - interval '1 day')",
        "revision 22, and 21 is one that older workers must not meet",
    ),
    "without jobs": ("drop table {}._private_jobs cascade", "has no table _private_jobs"),
}


@pytest.mark.parametrize(("change", "why"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_adopted_is_refused_and_stays(
    fresh: Fresh, tmp_path: Path, change: str, why: str
) -> None:
    make(fresh, "0.18", tmp_path)
    fresh.run(change)
    facts, bodies = fresh.facts(), definitions(fresh)
    with pytest.raises(SchemaConflict, match="nothing was changed") as refused:
        fresh.migrate()
    refused.match(why)
    assert (fresh.facts(), definitions(fresh)) == (facts, bodies)


def test_newer_and_not_breaking_is_kept(fresh: Fresh, tmp_path: Path) -> None:
    make(fresh, "0.18", tmp_path)
    fresh.run(
        "insert into {}.migrations (id, breaking) values (21, false);"
        "drop function {}.complete_jobs(bigint[]);"
        "create function {}.complete_jobs(job_ids bigint[], why text) returns int language sql"
        " as 'select 1';"
        "drop function {}.remove_job(text);"
        "create function {}.remove_job(name text) returns {}._private_jobs language sql"
        " as 'select null::{}._private_jobs'"
    )
    bodies = definitions(fresh)
    fresh.migrate()
    assert fresh.run("select max(id) from {}.migrations") == [(21,)]
    after = definitions(fresh)
    # One takes other arguments, one calls them otherwise: these are not ours to replace.
    kept = {name for name in bodies if after[name] == bodies[name]}
    assert kept == {"complete_jobs", "remove_job"}
    fresh.migrate("zero")
    assert definitions(fresh) == bodies
