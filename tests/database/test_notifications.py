"""What the functions announce: a count and a random number, never any data."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.database.stage import Stage, spec

Announce = Callable[[Stage], object]


@pytest.fixture
def heard(stage: Stage) -> Callable[[], list[tuple[str, Any]]]:
    """What was announced since one asked last: channels and parsed payloads."""
    listener = stage.connect()
    got: list[tuple[str, Any]] = []
    # A handler: what comes with the answer to a statement, psycopg 3.2.1 does not keep otherwise.
    listener.add_notify_handler(
        lambda notify: got.append((notify.channel, json.loads(notify.payload)))
    )
    listener.execute('listen "jobs:insert"')
    listener.execute('listen "worker:migrate"')

    def heard() -> list[tuple[str, Any]]:
        # A notification comes before the answer to the next statement of whoever listens.
        listener.execute("select 1")
        heard = got.copy()
        got.clear()
        return heard

    return heard


def running(stage: Stage, key: str = "k") -> None:
    stage.make_job(key, ["secret"], locked_at="now", locked_by="worker", attempts=1)


CALLS: dict[str, tuple[Announce, list[int]]] = {
    "a new job": (lambda stage: stage.add_job(payload=["secret"]), [1]),
    "a new job with a key": (lambda stage: stage.add_job(job_key="new"), [1]),
    "a changed job": (lambda stage: stage.add_job(job_key="free"), [1]),
    "a superseding": (lambda stage: stage.add_job(job_key="runs"), [1]),
    "a new job, deduplicated": (
        lambda stage: stage.add_job(job_key="new", job_key_mode="unsafe_dedupe"),
        [1],
    ),
    "nothing new": (
        lambda stage: stage.add_job(job_key="free", job_key_mode="unsafe_dedupe"),
        [],
    ),
    "many": (
        lambda stage: stage.add_jobs(None, [spec(job_key=key) for key in ("free", "runs", None)]),
        [3],
    ),
    "many without key": (lambda stage: stage.add_jobs(None, [spec(), spec()]), [2]),
    "one key many times": (lambda stage: stage.add_jobs(None, [spec(job_key="new")] * 3), [3]),
    "none": (lambda stage: stage.add_jobs(None, []), []),
    "a removal": (lambda stage: stage.query("select {remove_job}('free')"), [-1]),
    "a removal of a running job": (lambda stage: stage.query("select {remove_job}('runs')"), []),
    "a removal of nothing": (lambda stage: stage.query("select {remove_job}('new')"), []),
}


@pytest.mark.parametrize("name", CALLS)
def test_each_call_tells_how_many_jobs_there_may_be(
    stage: Stage, heard: Callable[[], list[tuple[str, Any]]], name: str
) -> None:
    announce, counts = CALLS[name]
    stage.make_job("free", ["secret"])
    running(stage, "runs")
    announce(stage)
    messages = heard()
    assert [channel for channel, _ in messages] == ["jobs:insert"] * len(counts)
    assert [message["count"] for _, message in messages] == counts
    for _, message in messages:
        assert message.keys() == {"r", "count"}
        assert 0 <= message["r"] < 1


def test_equal_calls_in_one_transaction_are_all_heard(
    stage: Stage, heard: Callable[[], list[tuple[str, Any]]]
) -> None:
    """PostgreSQL drops what repeats itself within a transaction; the random number prevents it."""
    session = stage.session()
    for _ in range(3):
        stage.add_job(session)
    assert heard() == []
    session.commit()
    assert len(heard()) == 3


def test_what_is_rolled_back_is_not_announced(
    stage: Stage, heard: Callable[[], list[tuple[str, Any]]]
) -> None:
    session = stage.session()
    stage.add_job(session)
    session.rollback()
    assert heard() == []
