"""The supervisor alone, where it has no worker to start."""

from __future__ import annotations

import threading

import pytest

from django_graphile_worker.worker.connections import Link
from django_graphile_worker.worker.keeper import Keeper
from django_graphile_worker.worker.supervisor import Supervisor
from tests.waiting import eventually

WITHIN = 15


def test_a_process_that_cannot_be_started_is_tried_again_until_the_stop(
    caplog: pytest.LogCaptureFixture,
) -> None:
    supervisor = Supervisor(
        processes=2,
        keeper=Keeper(
            link=Link("default", "keeper"),
            schema="graphile_worker",
            heartbeat=1,
            on_end=lambda part, error: None,
        ),
        shutdown_timeout=1,
        command=["/no/such/program"],
    )
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(supervisor.run()))
    thread.start()

    def tried_again() -> None:
        assert caplog.text.count("A process could not be started") >= 4

    try:
        eventually(tried_again, WITHIN)
    finally:
        supervisor.stop()
        thread.join(WITHIN)
    assert codes == [0]
