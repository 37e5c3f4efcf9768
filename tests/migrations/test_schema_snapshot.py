"""`schema.sql` is the whole schema as it is today, in one place to read.

After a change of `sql/schema/`, make it anew and look at the difference:

    WRITE_SCHEMA_SNAPSHOT=1 python -m pytest tests/migrations/test_schema_snapshot.py
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from testproject import postgres_programs
from tests import catalog
from tests.fresh import SCHEMA, Fresh

SNAPSHOT = Path(__file__).with_name("schema.sql")


def dump(fresh: Fresh) -> str:
    # A pg_dump can read from its own version of the server and from older ones. Those of 14 to 18
    # print the same, from any of these, once their remarks are gone.
    server = fresh.connect().info.server_version // 10_000
    programs = postgres_programs.find_binaries(server).folder
    dumped = subprocess.run(
        [programs / "pg_dump", "--schema-only", "--no-owner", f"--schema={SCHEMA}", fresh.address],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return without_remarks(dumped)


def without_remarks(dumped: str) -> str:
    """Leave out what differs from version to version, and what is not about the schema."""
    # Settings, and the \restrict of 17.6 and later with its random key.
    remark = re.compile(r"-- |--$|SET |SELECT pg_catalog\.set_config|\\(un)?restrict ")
    lines = [line for line in dumped.splitlines() if not remark.match(line)]
    # Since 18 these are constraints with names; the comparison with upstream's catalog has them.
    text = re.sub(r"CONSTRAINT \w+ (?=NOT NULL)", "", "\n".join(lines))
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def test_the_snapshot_is_what_migrate_makes(fresh: Fresh) -> None:
    fresh.migrate()
    dumped = dump(fresh)
    assert dumped.count("CREATE FUNCTION") > 7
    if os.environ.get("WRITE_SCHEMA_SNAPSHOT"):
        SNAPSHOT.write_text(dumped, encoding="utf-8")
    assert dumped == SNAPSHOT.read_text(encoding="utf-8"), __doc__


def test_the_snapshot_can_be_read_by_postgresql(fresh: Fresh) -> None:
    """Nothing that matters is left out: from it the same schema is made."""
    session = fresh.connect()
    session.execute("set check_function_bodies = off")  # they call others, further down
    session.execute(SNAPSHOT.read_text(encoding="utf-8").encode())
    from_snapshot = fresh.facts()
    fresh.run("drop schema {} cascade")
    fresh.migrate()

    def named(facts: dict[str, str]) -> dict[str, str]:
        return {name: fact for name, fact in facts.items() if "_not_null" not in name}

    assert catalog.differences(named(from_snapshot), named(fresh.facts())) == []
