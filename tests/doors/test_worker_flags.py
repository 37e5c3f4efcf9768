"""What the flags of `manage.py graphile_worker` let run, and how it tells the others off."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings

from django_graphile_worker.registry import Registry
from tests.doors.test_worker_command import use as use
from tests.worker.conftest import queue as queue
from tests.worker.tools import Queue, register

Use = Callable[[Registry], None]

# What a function of the settings finds here; see `flags_now`.
asked: list[str] = []
entered: list[str] = []


def flags_now() -> list[str]:
    asked.append("asked")
    return ["noisy"]


@contextmanager
def wrapper(context: Any) -> Iterator[None]:
    entered.append(context.job.task_identifier)
    yield
    entered.append("left")


not_a_function = 1


@pytest.fixture(autouse=True)
def _forget() -> None:
    asked.clear()
    entered.clear()


def run(*flags: str, **options: Any) -> tuple[str, str]:
    """Drain the queue; return what was printed and what was logged."""
    out, error = StringIO(), StringIO()
    call_command("graphile_worker", "--once", *flags, stdout=out, stderr=error, **options)
    return out.getvalue(), error.getvalue()


@pytest.fixture
def three(queue: Queue, use: Use) -> list[str]:
    """Three tasks, one of them with a comma in its name, and a job of each; returns what ran."""
    ran: list[str] = []
    names = ["one", "two", "a,b"]
    use(register(**{name: lambda name=name: ran.append(name) for name in names}))
    for name in names:
        queue.add(name)
    return ran


@pytest.mark.parametrize(
    ("flags", "served"),
    [
        (["--tasks", "one"], ["one"]),
        (["--tasks", "one", "two"], ["one", "two"]),
        (["--tasks", "one,two"], ["one", "two"]),
        (["--tasks", "one", "--tasks", "a,b"], ["a,b", "one"]),
        (["--exclude-tasks", "one"], ["a,b", "two"]),
        (["--exclude-tasks", "one, two"], ["a,b"]),
        (["--tasks", "one,two", "--exclude-tasks", "one"], ["two"]),
    ],
)
def test_only_the_chosen_tasks_are_served(
    three: list[str], queue: Queue, flags: list[str], served: list[str]
) -> None:
    said, _ = run(*flags)

    assert sorted(three) == served
    assert len(queue.jobs()) == 3 - len(served)
    assert all(job["attempts"] == 0 for job in queue.jobs())
    assert f"tasks     {', '.join(served)}\n" in said


@pytest.mark.parametrize("flag", ["--tasks", "--exclude-tasks"])
def test_a_task_that_is_not_known_here_is_refused(
    three: list[str], queue: Queue, flag: str
) -> None:
    with pytest.raises(CommandError, match=f"^{flag}: no task 'tow' .* Did you mean 'two'?"):
        run(flag, "one", "tow")
    assert three == []


def test_to_serve_nothing_at_all_is_refused(three: list[str], queue: Queue) -> None:
    with pytest.raises(CommandError, match="leave no task"):
        run("--tasks", "one", "--exclude-tasks", "one")


@pytest.mark.parametrize("how", ["flag", "words", "list", "function", "path"])
def test_jobs_with_a_forbidden_flag_are_left_alone(queue: Queue, use: Use, how: str) -> None:
    ran: list[int] = []
    use(register(task=lambda n: ran.append(n)))
    queue.add("task", {"n": 1})
    queue.add("task", {"n": 2}, flags=["noisy", "other"])
    settings: dict[str, Any] = {"SCHEMA": queue.schema}
    if how in ("list", "function", "path"):
        settings["FORBIDDEN_FLAGS"] = {
            "list": ["noisy"],
            "function": flags_now,
            "path": f"{__name__}.flags_now",
        }[how]
    flags = {"flag": ["--forbidden-flags", "quiet,noisy"]}.get(how, [])
    if how == "words":
        flags = ["--forbidden-flags", "quiet", "noisy"]
    with override_settings(GRAPHILE_WORKER=settings):
        run(*flags)

    assert ran == [1]
    assert len(queue.jobs()) == 1
    assert bool(asked) is (how in ("function", "path"))


def test_a_flag_for_forbidden_flags_beats_the_setting(queue: Queue, use: Use) -> None:
    ran: list[int] = []
    use(register(task=lambda n: ran.append(n)))
    queue.add("task", {"n": 1}, flags=["noisy"])
    with override_settings(GRAPHILE_WORKER={"SCHEMA": queue.schema, "FORBIDDEN_FLAGS": ["noisy"]}):
        run("--forbidden-flags", "quiet")
    assert ran == [1]


def test_the_wrapper_of_the_settings_is_around_each_job(queue: Queue, use: Use) -> None:
    use(register(task=lambda: entered.append("ran")))
    queue.add("task")
    with override_settings(
        GRAPHILE_WORKER={"SCHEMA": queue.schema, "JOB_WRAPPER": f"{__name__}.wrapper"}
    ):
        run()
    assert entered == ["task", "ran", "left"]


@pytest.mark.parametrize("name", ["FORBIDDEN_FLAGS", "JOB_WRAPPER"])
@pytest.mark.parametrize(
    "what", ["nowhere.at_all", f"{__name__}.missing", f"{__name__}.not_a_function"]
)
def test_a_path_that_leads_nowhere_is_told_at_the_start(
    queue: Queue, use: Use, name: str, what: str
) -> None:
    use(register())
    with (
        override_settings(GRAPHILE_WORKER={"SCHEMA": queue.schema, name: what}),
        pytest.raises(CommandError, match=f"GRAPHILE_WORKER: {name} '{what}'"),
    ):
        run()


def test_it_stops_after_as_many_jobs_as_were_asked_for(queue: Queue, use: Use) -> None:
    ran: list[int] = []
    use(register(task=lambda: ran.append(1)))
    for _ in range(20):
        queue.add("task")
    out = StringIO()
    call_command("graphile_worker", max_jobs=7, stdout=out, stderr=StringIO())

    assert len(ran) == 7
    assert [job["attempts"] for job in queue.jobs()] == [0] * 13
    assert queue.locks() == 0
    assert "7 jobs completed, 0 failed, 0 given back" in out.getvalue()


def test_it_counts_what_became_of_the_jobs(queue: Queue, use: Use) -> None:
    def fail() -> None:
        raise ValueError

    use(register(task=lambda: None, fail=fail))
    for task in ("task", "task", "fail"):
        queue.add(task)
    assert "2 jobs completed, 1 failed, 0 given back" in run()[0]


def test_in_json_each_line_is_an_object(queue: Queue, use: Use) -> None:
    use(register(task=lambda: None))
    job_id = queue.add("task")
    logger = logging.getLogger("graphile_worker")
    before = (logger.propagate, list(logger.handlers))
    out, error = run("--log-format", "json", "-v", "2")

    assert out == ""
    lines = [json.loads(line) for line in error.splitlines()]
    assert all({"level", "message"} <= line.keys() for line in lines)
    (start,) = (line for line in lines if line["message"] == "Worker starts")
    assert (start["tasks"], start["revision"], start["schema"]) == (["task"], 20, queue.schema)
    assert job_id in [line.get("job_id") for line in lines]
    assert lines[-1]["completed"] == 1
    assert (logger.propagate, list(logger.handlers)) == before


@pytest.mark.parametrize("options", [{"reload": True}, {"processes": 2}])
def test_other_programs_are_started_from_the_command_line_only(
    queue: Queue, use: Use, options: dict[str, Any]
) -> None:
    use(register())
    with pytest.raises(CommandError, match="use the command line"):
        run(**options)


@override_settings(DEBUG=True)
def test_called_in_a_program_it_neither_reloads_nor_starts_others(queue: Queue, use: Use) -> None:
    ran: list[int] = []
    use(register(task=lambda: ran.append(1)))
    queue.add("task")
    with override_settings(GRAPHILE_WORKER={"SCHEMA": queue.schema, "PROCESSES": 3}):
        run()
    assert ran == [1]
