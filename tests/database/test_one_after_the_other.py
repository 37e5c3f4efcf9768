"""A call with many specs comes to what adding them one after the other comes to."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from testproject.uncorrected import VARIANTS
from tests.database.model import Job, Model
from tests.database.stage import SPEC, Row, Session, Spec, Stage, spec

EARLY = datetime(2020, 1, 1, tzinfo=UTC)
LATE = datetime(2030, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Mix:
    """A call, and the jobs that hold keys before it."""

    holders: list[Job] = field(default_factory=list)
    specs: list[Spec] = field(default_factory=list)
    preserve_run_at: bool = False


HOLDERS = [
    Job(run_at=EARLY),
    Job(run_at=EARLY, attempts=1, last_error="boom", revision=3),
    Job(run_at=LATE, queue="lane", priority=4, flags={"x": True}),
    Job(run_at=EARLY, locked=True, attempts=1),
    Job(run_at=EARLY, attempts=25, last_error="boom"),
]


KEYS = ["a", "B", "_"]
PAYLOADS = ["array", "empty", "object", "null"]

# Made once: to make strategies for each mix took longer than to try it.
HELD = st.lists(
    st.tuples(st.sampled_from(KEYS), st.sampled_from(HOLDERS), st.sampled_from(PAYLOADS[:3])),
    unique_by=lambda held: held[0],
)
SPECS = st.lists(
    st.tuples(
        st.sampled_from(["task", "other"]),
        st.sampled_from(PAYLOADS),
        st.sampled_from([None, "lane"]),
        st.sampled_from([None, EARLY, LATE]),
        st.sampled_from([None, 1, 3]),
        st.sampled_from([*KEYS, None]),
        st.sampled_from([None, -5, 5]),
        st.sampled_from([None, [], ["x", "y"]]),
    ),
    max_size=8,
)


def payload(kind: str, number: int) -> Any:
    return {"array": [number], "empty": [], "object": {"n": number}, "null": None}[kind]


def mix(held: list[Any], raw: list[Any], preserve_run_at: bool) -> Mix:
    return Mix(
        [
            replace(job, key=key, payload=payload(kind, number))
            for number, (key, job, kind) in enumerate(held, start=1)
        ],
        [
            spec(**{**dict(zip(SPEC, each, strict=True)), "payload": payload(each[1], number)})
            for number, each in enumerate(raw, start=10)
        ],
        preserve_run_at,
    )


MIXES = st.builds(mix, HELD, SPECS, st.booleans())


Add = Callable[[Stage, Session, Mix], list[Row]]


def together(stage: Stage, session: Session, mix: Mix) -> list[Row]:
    return stage.add_jobs(session, mix.specs, preserve_run_at=mix.preserve_run_at)


def singly(stage: Stage, session: Session, mix: Mix) -> list[Row]:
    mode = "preserve_run_at" if mix.preserve_run_at else "replace"
    rows = [stage.add_job(session, **each, job_key_mode=mode) for each in mix.specs]
    stored = {row.id: row for row in stage.query("select * from {jobs}", session=session)}
    return [stored[row.id] for row in rows]


class Bench:
    """A transaction in which one mix after the other is tried and rolled back."""

    def __init__(self, stage: Stage, add: Add) -> None:
        self.stage = stage
        self.add = add
        self.session = stage.session()
        for name in ("task", "other"):
            stage.make_name("tasks", "identifier", name)
        stage.make_name("queues", "queue_name", "lane")
        self.now = stage.query("select now()", session=self.session)[0].now
        self.tasks = {row.identifier: row.id for row in stage.query("select * from {tasks}")}
        self.queues = {row.queue_name: row.id for row in stage.query("select * from {queues}")}

    def write(self, job: Job) -> tuple[Any, ...]:
        return (
            self.tasks[job.task],
            self.queues.get(job.queue),
            job.key,
            json.dumps(job.payload),
            job.run_at,
            job.attempts,
            job.max_attempts,
            job.last_error,
            job.priority,
            None if job.flags is None else json.dumps(job.flags),
            job.revision,
            EARLY if job.locked else None,
        )

    def read(self, row: Row) -> Job:
        return Job(
            {id: name for name, id in self.tasks.items()}[row.task_id],
            {id: name for name, id in self.queues.items()}.get(row.job_queue_id),
            row.payload,
            None if row.run_at == self.now else row.run_at.astimezone(UTC),
            row.attempts,
            row.max_attempts,
            row.last_error,
            row.key,
            row.priority,
            row.flags,
            row.revision,
            row.locked_at is not None,
        )

    def assert_like_the_model(self, mix: Mix) -> None:
        with self.session.transaction(force_rollback=True):
            with self.session.cursor() as cursor:
                cursor.executemany(
                    self.stage.sql(
                        "insert into {jobs} (task_id, job_queue_id, key, payload, run_at,"
                        " attempts, max_attempts, last_error, priority, flags, revision,"
                        " locked_at) values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
                    ),
                    [self.write(job) for job in mix.holders],
                )
            rows = self.add(self.stage, self.session, mix)
            stored = self.stage.query(
                "select job.*, (select count(*) from {conflicts}) as conflicts from {jobs} as job",
                session=self.session,
            )

        model = Model([replace(job) for job in mix.holders])
        expected = [model.add(each, mix.preserve_run_at) for each in mix.specs]
        assert [self.read(row) for row in rows] == expected
        assert all(row in [job[:-1] for job in stored] for row in rows)
        assert sorted(map(repr, map(self.read, stored))) == sorted(map(repr, model.jobs))
        assert {job.conflicts for job in stored} <= {model.superseded}


def try_mixes(bench: Bench, count: int) -> None:
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(MIXES)
    def try_one(mix: Mix) -> None:
        bench.assert_like_the_model(mix)

    try_one()


def test_together_a_thousand_mixes_come_to_what_the_model_says(stage: Stage) -> None:
    try_mixes(Bench(stage, together), 1000)


def test_singly_they_come_to_the_same(stage: Stage) -> None:
    try_mixes(Bench(stage, singly), 200)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_check_catches_the_fault(stage: Stage, variant: str) -> None:
    """Its second mention of a key in one call is an error, as it was in the published one."""
    stage.use_uncorrected(variant)
    mix = Mix(specs=[spec(payload=[1], job_key="a"), spec(payload=[2], job_key="a")])
    with pytest.raises(psycopg.errors.CardinalityViolation):
        Bench(stage, together).assert_like_the_model(mix)
