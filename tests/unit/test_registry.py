from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import markcoroutinefunction
from django.apps import apps

from django_graphile_worker import registry as registry_module
from django_graphile_worker import task
from django_graphile_worker.exceptions import (
    InvalidJob,
    InvalidJobType,
    InvalidTask,
    TaskAlreadyRegistered,
)
from django_graphile_worker.registry import Task, registry


@pytest.fixture(autouse=True)
def _registry_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_tasks", dict(registry._tasks))


def test_a_task_is_known_by_its_functions_name_and_still_callable() -> None:
    @task
    def send_letter(to: str, subject: str = "Hi") -> str:
        """Send it."""
        return f"{to}: {subject}"

    assert isinstance(send_letter, Task)
    assert registry.get("send_letter") is send_letter
    assert "send_letter" in registry.identifiers()
    assert send_letter("a@b") == "a@b: Hi"
    assert send_letter.__doc__ == "Send it."
    assert inspect.unwrap(send_letter) is send_letter.function
    assert not send_letter.is_async
    assert "send_letter" in repr(send_letter)


def test_a_task_may_have_another_identifier_and_options() -> None:
    @task("letters.send", queue_name="letters", max_attempts=5, run_at=timedelta(minutes=1))
    def send() -> None: ...

    assert registry.get("letters.send") is send
    assert registry.get("send") is None
    assert send.options == {
        "queue_name": "letters",
        "max_attempts": 5,
        "run_at": timedelta(minutes=1),
    }


def test_options_alone_leave_the_functions_name() -> None:
    @task(priority=-1)
    def send_soon() -> None: ...

    @task()
    def send_later() -> None: ...

    assert registry.get("send_soon") is send_soon
    assert registry.get("send_later") is send_later


def test_an_async_function_is_registered_as_such() -> None:
    @task
    async def fetch_page(url: str) -> str:
        return url

    assert fetch_page.is_async
    coroutine = fetch_page("x")
    with pytest.raises(StopIteration, match="x"):
        coroutine.send(None)


def test_an_identifier_that_another_function_has_is_refused_naming_both() -> None:
    @task("send")
    def send_letter() -> None: ...

    with pytest.raises(TaskAlreadyRegistered, match=r"'send'.*send_mail is taken by .*send_letter"):

        @task("send")
        def send_mail() -> None: ...

    assert registry.get("send") is send_letter


def test_two_functions_of_one_name_in_one_file_are_two_functions() -> None:
    @task
    def twice() -> None: ...

    with pytest.raises(TaskAlreadyRegistered):

        @task
        def twice() -> None: ...


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    name = "module_with_a_task"
    source = "from django_graphile_worker import task\n@task\ndef in_module(): return 1\n"
    (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    sys.modules.pop(name, None)


def test_the_same_function_may_be_imported_again_and_under_another_name(
    module: str, tmp_path: Path
) -> None:
    first = importlib.import_module(module)
    again = importlib.reload(first)
    assert registry.get("in_module") is again.in_module

    spec = importlib.util.spec_from_file_location("other_name", tmp_path / f"{module}.py")
    assert spec is not None
    assert spec.loader is not None
    other = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(other)
    assert registry.get("in_module") is other.in_module


def test_a_decorated_function_is_told_apart_by_what_it_wraps() -> None:
    def logged(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    @task("one")
    @logged
    def one(a: int) -> int:
        return a

    with pytest.raises(TaskAlreadyRegistered):

        @task("one")
        @logged
        def two() -> None: ...

    assert one.bind({"a": 1}) == ((), {"a": 1})
    with pytest.raises(InvalidJob, match="missing argument 'a'"):
        one.bind({})


class Callee:
    def __call__(self) -> None: ...

    def method(self) -> None: ...


def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> Any:
    yield 1


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (Callee, "for functions"),
        (Callee(), "for functions"),
        (Callee().method, "for functions"),
        (functools.partial(print, 1), "for functions"),
        (print, "for functions"),
        (7, "for functions"),
        (generator, "is a generator"),
        (async_generator, "is a generator"),
        (lambda: None, "A lambda has no name"),
    ],
)
def test_what_cannot_run_as_a_task_is_refused(function: Any, message: str) -> None:
    with pytest.raises(InvalidTask, match=message):
        task(function)
    with pytest.raises(InvalidTask):
        task()(function)


def test_a_lambda_may_be_given_a_name() -> None:
    double = task("double")(lambda n: 2 * n)
    assert registry.get("double") is double
    assert double(2) == 4


@pytest.mark.parametrize(
    ("identifier", "options", "message"),
    [
        ("", {}, "task must not be empty"),
        ("x" * 129, {}, "task has 129 characters; 128 is the most"),
        ("a\0", {}, "task holds a NUL"),
        ("a", {"priority": 40_000}, "priority must be from -32768 to 32767"),
        ("a", {"max_attempts": 0}, "max_attempts must be from 1 to 32767"),
        ("a", {"queue": "letters"}, "unknown option 'queue'; did you mean 'queue_name'?"),
        ("a", {"run_at": datetime(2026, 1, 1, tzinfo=UTC)}, "run_at of a task must be a timedelta"),
    ],
)
def test_a_task_with_bad_options_is_refused_where_it_is_defined(
    identifier: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        task(identifier, **options)(lambda: None)
    assert registry.get("a") is None


def test_using_gives_a_copy_with_other_options_and_leaves_the_task() -> None:
    @task(queue_name="letters", priority=3)
    def send() -> None: ...

    urgent = send.using(priority=-3, job_key="k")
    assert urgent.options == {"queue_name": "letters", "priority": -3, "job_key": "k"}
    assert send.options == {"queue_name": "letters", "priority": 3}
    assert registry.get("send") is send
    assert urgent.using(queue_name=None).options["queue_name"] is None
    with pytest.raises(InvalidJobType, match="unknown option 'key'"):
        send.using(key="k")  # type: ignore[call-arg]


def letter(to: str, subject: str = "Hi", *, copies: int = 1) -> None: ...


def batch(items: list[int]) -> None: ...


def positional(items: list[int], /) -> None: ...


def anything(**everything: Any) -> None: ...


def many(*items: Any) -> None: ...


def with_cron(_cron: Any = None) -> None: ...


def nothing() -> None: ...


def two(a: Any, b: Any) -> None: ...


@pytest.mark.parametrize(
    ("function", "payload", "args", "kwargs"),
    [
        (letter, {"to": "a"}, (), {"to": "a"}),
        (letter, {"to": "a", "copies": 2}, (), {"to": "a", "copies": 2}),
        (batch, [1, 2], ([1, 2],), {}),
        (batch, {"items": [1]}, (), {"items": [1]}),
        (batch, None, (None,), {}),
        (batch, "text", ("text",), {}),
        (batch, 0, (0,), {}),
        (positional, [], ([],), {}),
        (anything, {"any thing": 1}, (), {"any thing": 1}),
        (many, [1], ([1],), {}),
        (nothing, {}, (), {}),
        (letter, {"to": "a", "_cron": {"ts": 1}}, (), {"to": "a"}),
        (with_cron, {"_cron": {"ts": 1}}, (), {"_cron": {"ts": 1}}),
        (anything, {"_cron": {"ts": 1}}, (), {}),
    ],
)
def test_a_payload_becomes_arguments(
    function: Callable[..., Any], payload: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    assert Task(function, "t").bind(payload) == (args, kwargs)


@pytest.mark.parametrize(
    ("function", "payload", "message"),
    [
        (letter, {}, "missing argument 'to'"),
        (two, {}, "missing arguments 'a', 'b'"),
        (letter, {"to": 1, "cc": 2, "bcc": 3}, "unexpected arguments 'bcc', 'cc'"),
        (letter, {"cc": 2}, "missing argument 'to'; unexpected argument 'cc'"),
        (positional, {"items": []}, "unexpected argument 'items'"),
        (nothing, None, "with one positional argument: too many"),
        (two, [1, 2], "with one positional argument: missing"),
        (anything, [], "with one positional argument: too many"),
    ],
)
def test_a_payload_that_does_not_fit_is_refused_naming_the_arguments(
    function: Callable[..., Any], payload: Any, message: str
) -> None:
    with pytest.raises(InvalidJob) as refusal:
        Task(function, "t").bind(payload)
    assert str(refusal.value).startswith("task 't'")
    assert message in str(refusal.value)


def test_tasks_of_installed_apps_are_discovered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = tmp_path / "an_app"
    app.mkdir()
    (app / "__init__.py").touch()
    (app / "tasks.py").write_text(
        "from django_graphile_worker import task\n@task\ndef discovered(): ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    config = apps.get_app_config("graphile_worker").create("an_app")
    assert registry.get("discovered") is None
    with monkeypatch.context() as patch:
        patch.setattr(apps, "app_configs", {"an_app": config})
        registry_module.autodiscover()
    assert registry.get("discovered") is not None
    for name in ("an_app", "an_app.tasks"):
        sys.modules.pop(name, None)


def test_an_error_in_a_tasks_module_is_not_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = tmp_path / "broken_app"
    app.mkdir()
    (app / "__init__.py").touch()
    (app / "tasks.py").write_text("import no_such_module\n")
    monkeypatch.syspath_prepend(tmp_path)
    config = apps.get_app_config("graphile_worker").create("broken_app")
    monkeypatch.setattr(apps, "app_configs", {"broken_app": config})
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        registry_module.autodiscover()
    for name in ("broken_app", "broken_app.tasks"):
        sys.modules.pop(name, None)


def test_the_package_can_be_imported_before_django_is_set_up(tmp_path: Path) -> None:
    program = (
        "from django_graphile_worker import __version__, enqueue, task\n"
        "@task('early', max_attempts=3)\n"
        "def early(): ...\n"
        "from django.apps import apps\n"
        "assert not apps.ready\n"
        "from django.conf import settings\n"
        "assert not settings.configured\n"
        "print(early.using(priority=1).options, __version__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": ""},
    )
    assert done.stderr == ""
    assert done.stdout.startswith("{'max_attempts': 3, 'priority': 1} 0.")


def contextual(context: Any, to: str, *, copies: int = 1) -> None: ...


def contextual_batch(context: Any, items: list[int], /) -> None: ...


def contextual_anything(context: Any, **everything: Any) -> None: ...


def named_elsewhere(to: str, context: str = "") -> None: ...


def test_a_first_parameter_called_context_is_not_part_of_the_payload(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[object] = []
    monkeypatch.setattr(Task, "send", staticmethod(lambda task, payload: sent.append(payload)))
    made: Task[..., None] = Task(contextual, "t")
    assert made.takes_context
    assert made.bind({"to": "a"}) == ((), {"to": "a"})
    with pytest.raises(InvalidJob, match=r"missing argument 'to'$"):
        made.bind({})
    with pytest.raises(InvalidJob, match="unexpected argument 'context'"):
        made.bind({"to": "a", "context": 1})
    made.enqueue("a", copies=2)
    assert sent == [{"to": "a", "copies": 2}]
    # Called directly it is the function, and whoever calls passes the context himself.
    assert made(None, "a") is None
    with pytest.raises(TypeError, match="'to'"):
        made("a")


def test_the_context_leaves_other_forms_of_payload_as_they_were() -> None:
    assert Task(contextual_batch, "t").bind([1]) == (([1],), {})
    assert Task(contextual_anything, "t").bind({"a": 1}) == ((), {"a": 1})
    with pytest.raises(InvalidJob, match="unexpected argument 'context'"):
        Task(contextual_anything, "t").bind({"context": 1})
    plain: Task[..., None] = Task(named_elsewhere, "t")
    assert not plain.takes_context
    assert plain.bind({"to": "a", "context": "b"}) == ((), {"to": "a", "context": "b"})


def test_a_task_says_how_long_it_may_take_and_when_to_try_again() -> None:
    def backoff(attempt: int) -> float:
        return 2.0 * attempt

    @task(timeout=timedelta(minutes=1), backoff=backoff, max_attempts=3)
    def send() -> None: ...

    assert (send.timeout, send.backoff, send.options) == (60.0, backoff, {"max_attempts": 3})
    urgent = send.using(priority=-1)
    assert (urgent.timeout, urgent.backoff) == (60.0, backoff)

    @task
    def other() -> None: ...

    assert (other.timeout, other.backoff) == (None, None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timeout": 0}, "timeout must be a timedelta or a number of seconds, 0.001 up to"),
        ({"timeout": -1}, "timeout must be"),
        ({"timeout": "1"}, "timeout must be"),
        ({"timeout": True}, "timeout must be"),
        ({"timeout": float("inf")}, "timeout must be"),
        ({"backoff": 5}, "backoff must be a function, not 5"),
    ],
)
def test_a_timeout_or_backoff_out_of_bounds_is_refused_where_it_is_defined(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        task("a", **options)(lambda: None)
    assert registry.get("a") is None


def test_a_function_marked_as_async_is_async() -> None:
    def returns_awaitable() -> Any: ...

    assert not Task(returns_awaitable, "t").is_async
    assert Task(markcoroutinefunction(returns_awaitable), "t").is_async
