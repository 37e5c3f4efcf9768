from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from django.conf import LazySettings
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from django_graphile_worker.conf import SAME, Config, get_config
from django_graphile_worker.exceptions import InvalidSetting


def config(**given: Any) -> Config:
    with override_settings(GRAPHILE_WORKER=given):
        return get_config()


def test_no_setting_at_all_gives_the_defaults(settings: LazySettings) -> None:
    del settings.GRAPHILE_WORKER
    assert get_config() == Config(
        databases=("default",),
        schema="graphile_worker",
        concurrency=10,
        poll_interval=2.0,
        shutdown_timeout=30.0,
        max_attempts=25,
        processes=1,
        prefetch=None,
        listen_database=SAME,
        heartbeat=5.0,
        stale_after=30.0,
        forbidden_flags=(),
        job_wrapper=None,
        log_format="text",
        keep_statistics=31 * 86_400,
    )


def test_settings_are_read_again_when_they_change(settings: LazySettings) -> None:
    settings.GRAPHILE_WORKER = {"CONCURRENCY": 3}
    assert get_config().concurrency == 3
    settings.GRAPHILE_WORKER = {"CONCURRENCY": 4, "DATABASES": ["queue", "default"]}
    assert (get_config().concurrency, get_config().databases) == (4, ("queue", "default"))


def test_settings_are_read_once_until_then(settings: LazySettings) -> None:
    settings.GRAPHILE_WORKER = {}
    assert get_config() is get_config()


@pytest.mark.parametrize(
    "name", ["Graphile", 'sp ace "quoted"', "dots.in.it", "ü" * 31 + "x", "x" * 63, "\\1&"]
)
def test_any_schema_name_of_postgresql_is_taken(name: str) -> None:
    assert config(SCHEMA=name).schema == name


@pytest.mark.parametrize(
    ("given", "named"),
    [
        *[
            ({"SCHEMA": bad}, "SCHEMA")
            for bad in ["", "a\0b", "x" * 64, "ü" * 32, "pg_queue", "100%", "a$b"]
        ],
        *[({"SCHEMA": bad}, "SCHEMA") for bad in [None, b"queue", 1, "\ud800"]],
        *[({"DATABASES": bad}, "DATABASES") for bad in ["default", [], [""], [1], {"a": 1}]],
        ({"DATABASES": ["a", "a"]}, "without repeats"),
        *[({"CONCURRENCY": bad}, "CONCURRENCY") for bad in [0, -1, 1001, True, "10", 1.0, None]],
        *[({"POLL_INTERVAL": bad}, "POLL_INTERVAL") for bad in [0, -1, float("nan"), "2", True]],
        *[({"POLL_INTERVAL": bad}, "POLL_INTERVAL") for bad in [float("inf"), 86_401, None]],
        *[({"SHUTDOWN_TIMEOUT": bad}, "SHUTDOWN_TIMEOUT") for bad in [-0.1, float("inf"), None]],
        *[({"MAX_ATTEMPTS": bad}, "MAX_ATTEMPTS") for bad in [0, 32_768, False]],
        *[({"PROCESSES": bad}, "PROCESSES") for bad in [0, 257, True, None, "2"]],
        *[({"PREFETCH": bad}, "PREFETCH") for bad in [-1, 10_001, True, 1.5, "many"]],
        *[({"LISTEN_DATABASE": bad}, "LISTEN_DATABASE") for bad in ["", 1, False, ["default"]]],
        *[({"HEARTBEAT": bad}, "HEARTBEAT") for bad in [0, 601, None, "5"]],
        *[({"STALE_AFTER": bad}, "STALE_AFTER") for bad in [0, 3_601, None]],
        *[({"FORBIDDEN_FLAGS": bad}, "FORBIDDEN_FLAGS") for bad in [None, "flag", [1], [""]]],
        *[({"FORBIDDEN_FLAGS": bad}, "FORBIDDEN_FLAGS") for bad in [["a\0"], {"a"}, "a..b", "."]],
        *[({"JOB_WRAPPER": bad}, "JOB_WRAPPER") for bad in ["", "wrapper", 1, ["a.b"]]],
        *[({"LOG_FORMAT": bad}, "LOG_FORMAT") for bad in ["", "JSON", None, 1]],
    ],
)
def test_a_value_out_of_bounds_is_refused_by_name(given: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidSetting, match=named):
        config(**given)


@pytest.mark.parametrize(
    ("name", "hint"), [("CONCURENCY", "'CONCURRENCY'"), ("schema", "'SCHEMA'"), ("X", "SCHEMA")]
)
def test_an_unknown_setting_is_refused_with_a_hint(name: str, hint: str) -> None:
    with pytest.raises(InvalidSetting, match=hint):
        config(**{name: 1})


@pytest.mark.parametrize("given", [None, [], "graphile_worker"])
def test_settings_that_are_no_dict_are_refused(settings: LazySettings, given: object) -> None:
    settings.GRAPHILE_WORKER = given
    with pytest.raises(ImproperlyConfigured, match="must be a dict"):
        get_config()


def test_a_value_put_over_the_settings_is_checked_as_well() -> None:
    assert dataclasses.replace(Config(), concurrency=4).concurrency == 4
    with pytest.raises(InvalidSetting, match="CONCURRENCY must be an integer from 1 to 1000"):
        dataclasses.replace(Config(), concurrency=0)


def test_whole_seconds_become_floats() -> None:
    assert isinstance(config(POLL_INTERVAL=5).poll_interval, float)
    assert config(SHUTDOWN_TIMEOUT=0).shutdown_timeout == 0


@pytest.mark.parametrize(
    "given", [{"HEARTBEAT": 16}, {"STALE_AFTER": 9.9}, {"HEARTBEAT": 4, "STALE_AFTER": 7.9}]
)
def test_one_late_beat_must_not_kill(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidSetting, match="STALE_AFTER must be at least twice HEARTBEAT"):
        config(**given)
    assert config(HEARTBEAT=4, STALE_AFTER=8).stale_after == 8


def test_it_listens_where_the_queue_is_unless_another_alias_or_none_is_named() -> None:
    assert config(DATABASES=["jobs", "default"]).listen_alias == "jobs"
    assert config(LISTEN_DATABASE="direct").listen_alias == "direct"
    assert config(LISTEN_DATABASE=None).listen_alias is None


def test_forbidden_flags_are_a_list_or_a_function_or_its_path() -> None:
    def flags() -> list[str]:
        return []

    assert config(FORBIDDEN_FLAGS=["a", "b"]).forbidden_flags == ("a", "b")
    assert config(FORBIDDEN_FLAGS=flags).forbidden_flags is flags
    assert config(FORBIDDEN_FLAGS="app.flags.now").forbidden_flags == "app.flags.now"
