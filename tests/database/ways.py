"""The ways to make a keyed request, each of which must hold what the others hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.database.stage import Row, Session, Spec, Stage, spec


@dataclass(frozen=True)
class Way:
    """One call that carries the request `number` for a key in an array payload."""

    name: str
    bulk: bool = False
    preserve_run_at: bool = False
    among_others: bool = False

    def request(
        self, stage: Stage, session: Session | None, key: str, number: int, **fields: Any
    ) -> Row:
        """Make the request; returns the key's row of the answer, which must carry the number."""
        if self.bulk:
            mine = spec(payload=[number], job_key=key, **fields)
            specs = [mine]
            if self.among_others:
                specs = [spec(payload=[]), spec(payload=[], job_key=f"{key}+"), mine, spec()]
            rows = stage.add_jobs(session, specs, preserve_run_at=self.preserve_run_at)
            assert_answers(rows, specs)
            row = rows[specs.index(mine)]
        else:
            mode = "preserve_run_at" if self.preserve_run_at else "replace"
            row = stage.add_job(session, payload=[number], job_key=key, job_key_mode=mode, **fields)
            assert_answers([row], [spec(job_key=key)])
        assert number in row.payload, f"lost: the answer to request {number} is {row}"
        return row

    def __str__(self) -> str:
        return self.name


def assert_answers(rows: list[Row], specs: list[Spec]) -> None:
    """One row for each spec, in their order."""
    assert len(rows) == len(specs), f"lost: {len(specs)} specs have {len(rows)} rows"
    assert all(row.id is not None for row in rows), f"lost: a row is all null: {rows}"
    assert [row.key for row in rows] == [each["job_key"] for each in specs]


WAYS = [
    Way("add_job"),
    Way("add_job-preserve_run_at", preserve_run_at=True),
    Way("add_jobs", bulk=True),
    Way("add_jobs-preserve_run_at", bulk=True, preserve_run_at=True),
    Way("add_jobs-among_others", bulk=True, among_others=True),
]
FEW = [WAYS[0], WAYS[3], WAYS[4]]
"""Single, many and mixed, with and without a time to keep: where all of them are too many."""
