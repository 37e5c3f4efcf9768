"""An installer that is at work is waited for, and what is not ours to change is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.management import call_command
from pytest_django import Settings

from django_graphile_worker.exceptions import SchemaConflict
from django_graphile_worker.operations import adoption
from tests.compatibility.adopting import definitions, make, states
from tests.fresh import SCHEMA, Fresh, InThread, aliased, hold_queue
from tests.waiting import eventually

pytestmark = pytest.mark.node

WITHIN = 60


def test_one_that_is_at_work_is_waited_for(
    fresh: Fresh, in_thread: InThread, tmp_path: Path
) -> None:
    make(fresh, "0.18", tmp_path)
    fresh.run(
        "update {}.migrations set ts = now() where id = 17; delete from {}.migrations where id > 17"
    )
    run = in_thread(fresh)

    def looks() -> None:
        asking = fresh.run(
            "select pid from pg_stat_activity where datname = current_database()"
            " and query like '%max(ts)%' and pid <> pg_backend_pid()"
        )
        assert asking or run.done()

    eventually(looks, WITHIN)
    assert not run.done()
    for revision in (18, 19, 20):
        fresh.run(
            f"insert into {{}}.migrations (id, breaking) values ({revision}, {revision == 19})"
        )
    run.result(timeout=WITHIN)
    assert states(fresh) == {"ours"}


def test_one_that_does_not_come_to_its_end_is_waited_for_so_long(
    fresh: Fresh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(fresh, "0.18", tmp_path)
    # It records one after the other and never comes to 18.
    fresh.run(
        "delete from {}.migrations where id > 17; update {}.migrations set ts = now() + '1 day'"
    )
    monkeypatch.setattr(adoption, "PATIENCE", 0.5)
    with pytest.raises(SchemaConflict, match="revision 17"):
        fresh.migrate()


def foreign_owner(fresh: Fresh) -> str:
    """Give everything in the schema to a role of its own."""
    owner = fresh.make_role()
    for kind, name in fresh.run(
        "select case relkind when 'v' then 'view' else 'table' end, oid::regclass::text"
        " from pg_class where relnamespace = %s::regnamespace and relkind in ('r', 'v')"
        " union all select 'function', oid::regprocedure::text from pg_proc"
        " where pronamespace = %s::regnamespace",
        SCHEMA,
        SCHEMA,
    ):
        fresh.run(f"alter {kind} {name} owner to {owner}")
    fresh.run(f"grant all on schema {{}} to {owner}")
    return owner


@pytest.mark.parametrize("case", ["not a member", "may not create", "several owners"])
def test_what_is_not_ours_to_change_is_refused(
    fresh: Fresh, tmp_path: Path, case: str, settings: Settings
) -> None:
    make(fresh, "0.18", tmp_path)
    # Django's own record of migrations has to be somewhere.
    call_command("migrate", "contenttypes", database="fresh", verbosity=0)
    owner, other = foreign_owner(fresh), fresh.make_role()
    fresh.run(f"grant all on schema public to {other}; grant all on django_migrations to {other}")
    fresh.run(f"grant select on {{}}.migrations to {other}; grant usage on schema {{}} to {other}")
    if case != "not a member":
        fresh.run(f"grant {owner} to {other}")
    if case == "may not create":
        fresh.run(f"revoke create on schema {{}} from {owner}")
    if case == "several owners":
        third = fresh.make_role()
        fresh.run(f"alter function {{}}.remove_job(text) owner to {third}")
    why = {
        "not a member": f"belongs to the role '{owner}', and the role that migrates is not",
        "may not create": f"The role '{owner}' may not create objects",
        "several owners": "but not all of it: function remove_job; nothing was changed",
    }[case]
    facts, bodies = fresh.facts(), definitions(fresh)
    with aliased("other", NAME=fresh.name, OPTIONS={"assume_role": other}):
        hold_queue(settings, "other")
        with pytest.raises(SchemaConflict, match=why) as refused:
            Fresh("other", fresh.name).migrate()
    assert "nothing was changed" in str(refused.value)
    assert (fresh.facts(), definitions(fresh)) == (facts, bodies)


def test_a_member_of_the_owner_adopts_for_it(
    fresh: Fresh, tmp_path: Path, settings: Settings
) -> None:
    make(fresh, "0.18", tmp_path)
    call_command("migrate", "contenttypes", database="fresh", verbosity=0)
    owner, member = foreign_owner(fresh), fresh.make_role()
    fresh.run(
        f"grant {owner} to {member}; grant all on schema public to {member};"
        f" grant all on django_migrations, django_content_type to {member};"
        f" grant all on all sequences in schema public to {member}"
    )
    facts, bodies = fresh.facts(), definitions(fresh)
    with aliased("member", NAME=fresh.name, OPTIONS={"assume_role": member}):
        hold_queue(settings, "member")
        migrated = Fresh("member", fresh.name)
        migrated.migrate()
        owners = fresh.run(
            "select distinct relowner::regrole::text from pg_class"
            " where relnamespace = %s::regnamespace and relkind in ('r', 'v')",
            SCHEMA,
        )
        assert owners == [(owner,)]
        assert states(fresh) == {"ours"}
        migrated.migrate("zero")
    assert (fresh.facts(), definitions(fresh)) == (facts, bodies)
