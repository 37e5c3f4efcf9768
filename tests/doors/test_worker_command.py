"""`manage.py graphile_worker` called in this process: its flags, and what it says."""

from __future__ import annotations

import logging
import re
import signal
import threading
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings

from django_graphile_worker.registry import Registry
from tests.worker.conftest import queue as queue
from tests.worker.tools import Queue, register

# Seconds; generous, since the machine may be busy with other tests.
WITHIN = 60
COMMAND = "django_graphile_worker.management.commands.graphile_worker"

Use = Callable[[Registry], None]


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Use:
    """Let the command serve these tasks."""
    return lambda registry: monkeypatch.setattr(f"{COMMAND}.registry", registry)


def once(**options: Any) -> str:
    out = StringIO()
    call_command("graphile_worker", once=True, stdout=out, stderr=StringIO(), **options)
    return out.getvalue()


@pytest.mark.parametrize(
    ("option", "value", "flag"),
    [
        ("concurrency", 0, "--concurrency"),
        ("concurrency", 100_000, "--concurrency"),
        ("concurrency", "many", "--concurrency"),
        ("poll_interval", 0, "--poll-interval"),
        ("poll_interval", -1.0, "--poll-interval"),
        ("poll_interval", float("nan"), "--poll-interval"),
        ("poll_interval", float("inf"), "--poll-interval"),
        ("database", "nowhere", "--database"),
        ("processes", 0, "--processes"),
        ("prefetch", -1, "--prefetch"),
        ("prefetch", 10_001, "--prefetch"),
        ("shutdown_timeout", -1.0, "--shutdown-timeout"),
        ("heartbeat", 0.0, "--heartbeat"),
        ("stale_after", 9.9, "--stale-after"),
        ("log_format", "xml", "--log-format"),
        ("max_jobs", 0, "--max-jobs"),
        ("listen_database", "nowhere", "--listen-database"),
    ],
)
def test_a_flag_out_of_bounds_is_named(option: str, value: object, flag: str) -> None:
    with pytest.raises(CommandError, match=rf"{flag} must be .*, not {value!r}\."):
        once(**{option: value})


@pytest.mark.parametrize("flag", ["--concurrency", "--poll-interval"])
def test_a_flag_that_is_no_number_is_named(flag: str) -> None:
    with pytest.raises(CommandError, match=flag):
        call_command("graphile_worker", flag, "many")


def test_it_says_what_it_serves(queue: Queue, use: Use) -> None:
    use(register(**{"b%d": lambda: None, "a": lambda: None}))
    said = once(concurrency=3, poll_interval=1.5)

    assert f"database  default, schema {queue.schema} (revision 20, functions 1)" in said
    assert re.search(r"slots     3, takes up to \d+ more jobs ahead", said)
    assert "looks     for jobs every 1.5 s, does not listen for new ones" in said
    assert "tasks     a, b%d" in said
    assert "Worker stopped: 0 jobs completed, 0 failed, 0 given back." in said


def test_it_warns_when_there_is_nothing_to_serve(queue: Queue, use: Use) -> None:
    use(register())

    assert "tasks     none" in once()


def test_a_flag_beats_the_setting_and_the_setting_the_default(queue: Queue, use: Use) -> None:
    use(register())
    settings: dict[str, Any] = {"SCHEMA": queue.schema}
    with override_settings(GRAPHILE_WORKER=settings):
        assert "slots     10, " in once()
    settings |= {"CONCURRENCY": 4, "POLL_INTERVAL": 5, "PREFETCH": 6}
    with override_settings(GRAPHILE_WORKER=settings):
        said = once()
        assert "slots     4, takes up to 6 more" in said
        assert "looks     for jobs every 5 s" in said
        said = once(concurrency=7, poll_interval=9.0, prefetch=0)
        assert "slots     7, takes up to 0 more" in said
        assert "looks     for jobs every 9 s" in said


def test_a_wrong_setting_is_told_as_an_error_of_the_command(queue: Queue) -> None:
    with (
        override_settings(GRAPHILE_WORKER={"CONCURRENCY": 0}),
        pytest.raises(CommandError, match="CONCURRENCY"),
    ):
        once()


def test_a_schema_that_is_not_there_is_told_with_the_way_out(queue: Queue, use: Use) -> None:
    use(register())
    with (
        override_settings(GRAPHILE_WORKER={"SCHEMA": "not there"}),
        pytest.raises(CommandError, match="migrate graphile_worker"),
    ):
        once()


def test_it_drains_the_queue(queue: Queue, use: Use) -> None:
    ran: list[int] = []
    for n in range(20):
        queue.add("task", {"n": n})
    use(register(task=lambda n: ran.append(n)))
    once()

    assert sorted(ran) == list(range(20))
    assert queue.jobs() == []


def test_it_works_off_the_main_thread(queue: Queue, use: Use) -> None:
    ran: list[int] = []
    errors: list[BaseException] = []
    queue.add("task", {"n": 1})
    use(register(task=lambda n: ran.append(n)))

    def work() -> None:
        try:
            once()
        except BaseException as error:  # noqa: BLE001 - told by the test
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(WITHIN)
    assert (ran, errors) == ([1], [])


@pytest.mark.parametrize(
    ("verbosity", "level"), [(0, logging.ERROR), (1, logging.INFO), (2, logging.DEBUG)]
)
def test_verbosity_sets_the_loggers_level(
    queue: Queue, use: Use, verbosity: int, level: int
) -> None:
    logger = logging.getLogger("graphile_worker")
    before, levels = logger.level, []
    queue.add("task")
    use(register(task=lambda: levels.append(logger.level)))
    said = once(verbosity=verbosity)

    assert levels == [level]
    assert logger.level == before
    assert bool(said) is (verbosity > 0), said


def test_former_signal_handlers_are_put_back(queue: Queue, use: Use) -> None:
    inside: list[Any] = []
    queue.add("task")
    use(register(task=lambda: inside.append(signal.getsignal(signal.SIGTERM))))
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    once()

    assert inside[0] not in before
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
