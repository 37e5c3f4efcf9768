from __future__ import annotations

import enum
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.conf import LazySettings
from django.db.models import IntegerChoices, TextChoices
from django.utils.translation import gettext_lazy
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from django_graphile_worker import requests, task, validation
from django_graphile_worker.exceptions import InvalidJob, InvalidJobType
from django_graphile_worker.jobs import JobKeyMode
from django_graphile_worker.registry import registry


class Queue(TextChoices):
    LETTERS = "letters"


class Priority(IntegerChoices):
    SOON = -5


class Flag(enum.StrEnum):
    SLOW = "slow"


@pytest.fixture(autouse=True)
def _registry_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_tasks", dict(registry._tasks))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"job_key": ""}, "job_key must not be empty"),
        ({"job_key": "x" * 513}, "job_key has 513 characters; 512 is the most"),
        ({"job_key": "a\0b"}, "job_key holds a NUL character"),
        ({"job_key": "\ud800"}, "job_key holds a lone surrogate"),
        ({"queue_name": ""}, "queue_name must not be empty"),
        ({"queue_name": "x" * 129}, "queue_name has 129 characters; 128 is the most"),
        ({"queue_name": "\0"}, "queue_name holds a NUL"),
        ({"max_attempts": 0}, "max_attempts must be from 1 to 32767, not 0"),
        ({"max_attempts": -1}, "max_attempts must be from 1 to 32767, not -1"),
        ({"max_attempts": 32_768}, "max_attempts must be from 1 to 32767, not 32768"),
        ({"priority": 32_768}, "priority must be from -32768 to 32767"),
        ({"priority": -32_769}, "priority must be from -32768 to 32767"),
        ({"priority": 10**5000}, "priority must be from -32768 to 32767, not a longer one"),
        ({"job_key_mode": "replac"}, "job_key_mode must be one of 'replace', 'preserve_run_at'"),
        ({"flags": [""]}, "flags[0] must not be empty"),
        ({"flags": ["a", "\0"]}, "flags[1] holds a NUL"),
        ({"run_at": datetime(2026, 1, 1)}, "run_at: 2026-01-01 00:00:00 has no time zone"),  # noqa: DTZ001
        ({"run_at": timedelta.max}, "run_at: 999999999 days"),
        ({"run_at": timedelta.min}, "run_at: -999999999 days"),
        ({"run_at": timedelta(days=365 * 8000)}, "run_at: 2920000 days, 0:00:00 from now"),
        (
            {"run_at": datetime.max.replace(tzinfo=timezone(timedelta(hours=-1)))},
            "run_at: 9999-12-31 23:59:59.999999-01:00 is beyond the years 1 to 9999",
        ),
        (
            {"run_at": datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))},
            "run_at: 0001-01-01 00:00:00+01:00 is beyond the years 1 to 9999",
        ),
        ({"using": ""}, "using must not be empty"),
    ],
)
def test_an_option_out_of_bounds_is_refused_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidJob) as refusal:
        requests.make("a_task", None, options)
    assert not isinstance(refusal.value, InvalidJobType)
    assert str(refusal.value).startswith(message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"job_key": 1}, "job_key must be a string, not int"),
        ({"job_key": b"a"}, "job_key must be a string, not bytes"),
        ({"job_key": gettext_lazy("a")}, "job_key must be a string, not "),
        ({"queue_name": 1}, "queue_name must be a string"),
        ({"max_attempts": True}, "max_attempts must be an integer, not bool"),
        ({"max_attempts": "3"}, "max_attempts must be an integer, not str"),
        ({"max_attempts": 3.0}, "max_attempts must be an integer, not float"),
        ({"priority": False}, "priority must be an integer, not bool"),
        ({"job_key_mode": 1}, "job_key_mode must be one of"),
        ({"job_key_mode": []}, "job_key_mode must be one of"),
        ({"flags": "slow"}, "flags must be a list of strings, not str"),
        ({"flags": {"slow": True}}, "flags must be a list of strings, not dict"),
        ({"flags": 1}, "flags must be a list of strings, not int"),
        ({"flags": ["a", None]}, "flags[1] must be a string, not None"),
        ({"run_at": "tomorrow"}, "run_at must be a datetime or a timedelta, not str"),
        ({"run_at": 60}, "run_at must be a datetime or a timedelta, not int"),
        ({"run_at": date(2026, 1, 1)}, "run_at must be a datetime or a timedelta, not date"),
        ({"using": 1}, "using must be a string"),
        ({"job_ky": "a"}, "unknown option 'job_ky'; did you mean 'job_key'?"),
        ({"zzz": 1}, "unknown option 'zzz'; there are queue_name, "),
    ],
)
def test_an_option_of_a_wrong_type_is_refused_by_name(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidJobType) as refusal:
        requests.make("a_task", None, options)
    assert str(refusal.value).startswith(message)
    assert isinstance(refusal.value, TypeError)


@pytest.mark.parametrize(
    ("identifier", "error", "message"),
    [
        ("", InvalidJob, "task must not be empty"),
        ("x" * 129, InvalidJob, "task has 129 characters; 128 is the most"),
        ("a\0b", InvalidJob, "task holds a NUL"),
        ("a\udc00", InvalidJob, "task holds a lone surrogate"),
        (None, InvalidJobType, "task must be a task or its identifier, not NoneType"),
        (7, InvalidJobType, "task must be a task or its identifier, not int"),
        (print, InvalidJobType, "task: <built-in function print> is not a task; decorate it"),
    ],
)
def test_an_identifier_is_refused_by_the_name_task(
    identifier: Any, error: type[InvalidJob], message: str
) -> None:
    with pytest.raises(error) as refusal:
        requests.make(identifier, None, {})
    assert str(refusal.value).startswith(message)


def test_the_bounds_themselves_are_taken() -> None:
    spec = requests.make(
        "ü" * 128,
        None,
        {
            "job_key": "😀" * 512,
            "queue_name": "é" * 128,
            "max_attempts": 32_767,
            "priority": -32_768,
        },
    ).spec
    assert (len(spec.identifier), len(spec.job_key or ""), len(spec.queue_name or "")) == (
        128,
        512,
        128,
    )
    assert (spec.max_attempts, spec.priority) == (32_767, -32_768)


def test_subclasses_of_str_and_int_become_plain() -> None:
    spec = requests.make(
        Queue.LETTERS,
        None,
        {
            "job_key": Queue.LETTERS,
            "queue_name": Queue.LETTERS,
            "priority": Priority.SOON,
            "flags": {Flag.SLOW},
        },
    ).spec
    assert [type(value) for value in (spec.identifier, spec.job_key, spec.queue_name)] == [str] * 3
    assert type(spec.priority) is int
    assert spec.flags == ("slow",)
    assert type(spec.flags[0]) is str


@pytest.mark.parametrize("flags", [None, [], (), set()])
def test_no_flags_are_none(flags: Any) -> None:
    assert requests.make("a", None, {"flags": flags}).spec.flags is None


def test_flags_stand_once_each() -> None:
    assert requests.make("a", None, {"flags": ["b", "a", "b"]}).spec.flags == ("b", "a")


def test_a_time_is_taken_to_utc() -> None:
    paris = datetime(2026, 7, 1, 12, tzinfo=ZoneInfo("Europe/Paris"))
    spec = requests.make("a", None, {"run_at": paris}).spec
    assert repr(spec.run_at) == repr(datetime(2026, 7, 1, 10, tzinfo=UTC))


def test_a_naive_time_is_in_time_zone_without_use_tz(settings: LazySettings) -> None:
    settings.USE_TZ = False
    settings.TIME_ZONE = "America/New_York"
    spec = requests.make("a", None, {"run_at": datetime(2026, 1, 1, 12)}).spec  # noqa: DTZ001
    assert spec.run_at == datetime(2026, 1, 1, 17, tzinfo=UTC)


@hypothesis_settings(deadline=None)
@given(st.timedeltas())
def test_any_delay_is_taken_or_refused(delay: timedelta) -> None:
    try:
        taken = validation.run_at(delay)
    except InvalidJob:
        assert abs(delay) > timedelta(days=365 * 2000)
    else:
        assert taken is delay


@hypothesis_settings(deadline=None)
@given(st.datetimes(timezones=st.timezones()))
def test_any_aware_time_is_the_same_moment_in_utc_or_refused(moment: datetime) -> None:
    try:
        taken = validation.run_at(moment)
    except InvalidJob:
        assert moment.year in (1, 9999)
    else:
        assert isinstance(taken, datetime)
        assert taken.tzinfo is UTC
        assert taken == moment.astimezone(UTC)


def test_the_options_of_the_task_hold_where_the_call_says_nothing() -> None:
    @task(queue_name="letters", max_attempts=3, priority=7, flags=["slow"], job_key="k")
    def send() -> None: ...

    spec = requests.make(send, None, {"priority": 1, "queue_name": None}).spec
    assert (spec.queue_name, spec.max_attempts, spec.priority) == (None, 3, 1)
    assert (spec.flags, spec.job_key) == (("slow",), "k")


def test_the_identifier_of_a_known_task_means_that_task() -> None:
    @task("send_it", max_attempts=3, job_key_mode="unsafe_dedupe")
    def send(to: str) -> None: ...

    request = requests.make("send_it", {"to": "a"}, {})
    assert request.spec.max_attempts == 3
    assert request.job_key_mode is JobKeyMode.UNSAFE_DEDUPE
    with pytest.raises(InvalidJob, match="task 'send_it': missing argument 'to'"):
        requests.make("send_it", None, {})


def test_max_attempts_falls_back_to_the_setting(settings: LazySettings) -> None:
    settings.GRAPHILE_WORKER = {"MAX_ATTEMPTS": 4}
    assert requests.make("a", None, {}).spec.max_attempts == 4
    assert requests.make("a", None, {"max_attempts": None}).spec.max_attempts == 4
    assert requests.make("a", None, {"max_attempts": 2}).spec.max_attempts == 2


@pytest.mark.parametrize(
    ("payload", "encoded"), [(None, "{}"), ({}, "{}"), ([], "[]"), (0, "0"), ("", '""')]
)
def test_no_payload_is_an_empty_object(payload: Any, encoded: str) -> None:
    assert requests.make("a", payload, {}).spec.payload == encoded


def test_a_bulk_call_takes_pairs_dicts_and_tasks() -> None:
    @task
    def send(to: str = "all") -> None: ...

    specs = requests.make_many(
        iter(
            [
                (send, {"to": "a"}),
                (send.using(job_key="k"), None),
                {"task": "resize", "payload": [1], "priority": 2},
                send,
                "resize",
            ]
        ),
        JobKeyMode.REPLACE,
        "default",
    )
    assert [(s.identifier, s.payload, s.job_key, s.priority) for s in specs] == [
        ("send", '{"to":"a"}', None, None),
        ("send", "{}", "k", None),
        ("resize", "[1]", None, 2),
        ("send", "{}", None, None),
        ("resize", "{}", None, None),
    ]


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (("a", {"when": datetime.now(UTC)}), "jobs[1]: payload.when is of type datetime"),
        ({"task": "a", "job_key": ""}, "jobs[1]: job_key must not be empty"),
        ({"task": "a", "key": "k"}, "jobs[1]: unknown option 'key'; did you mean 'job_key'?"),
        ({"payload": {}}, "jobs[1]: task is missing"),
        ({"task": None}, "jobs[1]: task must be a task or its identifier"),
        (("a",), "jobs[1]: a job is a task, a pair (task, payload) or a dict"),
        (("a", 1, 2), "jobs[1]: a job is a task, a pair (task, payload) or a dict"),
        (None, "jobs[1]: a job is a task, a pair (task, payload) or a dict"),
        (
            {"task": "a", "job_key": "k", "job_key_mode": "unsafe_dedupe"},
            "jobs[1]: job_key_mode is 'unsafe_dedupe', and 'replace' is what all jobs of this call",
        ),
        (
            {"task": "a", "using": "other"},
            "jobs[1]: using is 'other', and this call uses 'default'",
        ),
    ],
)
def test_a_bulk_call_names_the_job_that_is_refused(job: Any, message: str) -> None:
    with pytest.raises(InvalidJob) as refusal:
        requests.make_many(["fine", job, ""], JobKeyMode.REPLACE, "default")
    assert str(refusal.value).startswith(message)


@pytest.mark.parametrize("jobs", ["send", b"send", {"task": "send"}, 7, None])
def test_a_bulk_call_is_for_a_list(jobs: Any) -> None:
    with pytest.raises(InvalidJobType, match="jobs must be a list of jobs"):
        requests.make_many(jobs, JobKeyMode.REPLACE, "default")


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ("12", "job_ids must be a list of integers, not str"),
        (12, "job_ids must be a list of integers, not int"),
        ([1, "2"], "job_ids[1] must be an integer, not str"),
        ([True], "job_ids[0] must be an integer, not bool"),
        ([2**63], "job_ids[0] must be from -9223372036854775808 to 9223372036854775807"),
    ],
)
def test_job_ids_are_checked(ids: Any, message: str) -> None:
    with pytest.raises(InvalidJob) as refusal:
        validation.job_ids(ids)
    assert str(refusal.value).startswith(message)


@pytest.mark.parametrize("ids", ["worker-1", [1], [""], ["\0"], None])
def test_worker_ids_are_checked(ids: Any) -> None:
    with pytest.raises(InvalidJob, match="worker_ids"):
        validation.worker_ids(ids)
