"""What the flags of the worker make of the settings."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import CommandError
from django.core.management.base import BaseCommand
from django.test import override_settings

from django_graphile_worker.exceptions import InvalidSetting
from django_graphile_worker.management import arguments


def config(*flags: str, **settings: Any) -> Any:
    """Return the settings with the flags put over them."""
    parser = BaseCommand().create_parser("manage.py", "graphile_worker")
    arguments.add(parser)
    with override_settings(GRAPHILE_WORKER=settings):
        return arguments.config(vars(parser.parse_args(list(flags))))


def test_a_flag_beats_the_setting_of_its_name() -> None:
    settings = {"HEARTBEAT": 7, "STALE_AFTER": 60, "PROCESSES": 3, "LOG_FORMAT": "json"}
    assert config(**settings).heartbeat == 7
    made = config("--heartbeat", "1", "--processes", "2", "--log-format", "text", **settings)
    assert (made.heartbeat, made.stale_after, made.processes, made.log_format) == (1, 60, 2, "text")


def test_a_flag_that_does_not_go_with_a_setting_names_both() -> None:
    with pytest.raises(
        CommandError, match=r"STALE_AFTER must be at least twice HEARTBEAT \(20 s\)"
    ):
        config("--heartbeat", "20")


@pytest.mark.parametrize(
    ("flags", "setting", "alias"),
    [
        ([], {}, "default"),
        (["--no-listen"], {}, None),
        ([], {"LISTEN_DATABASE": None}, None),
        (["--no-listen"], {"LISTEN_DATABASE": "default"}, None),
        (["--listen-database", "default"], {"LISTEN_DATABASE": None}, "default"),
        (["--database", "default"], {"DATABASES": ["other"], "LISTEN_DATABASE": "x"}, "default"),
        (["--database", "default"], {"DATABASES": ["other"], "LISTEN_DATABASE": None}, None),
    ],
)
def test_where_it_listens(flags: list[str], setting: dict[str, Any], alias: str | None) -> None:
    assert config(*flags, **setting).listen_alias == alias


def test_an_unknown_alias_to_listen_on_is_refused() -> None:
    with pytest.raises(CommandError, match="LISTEN_DATABASE must be one of default, not 'direct'"):
        config(LISTEN_DATABASE="direct")


@pytest.mark.parametrize("returned", ["noisy", [1], ["noisy", None], None, 7, [""], ["\0"]])
def test_a_function_that_returns_no_flags_is_told_so(returned: Any) -> None:
    flags = arguments.resolve_flags(lambda: returned)
    assert callable(flags)
    with pytest.raises(InvalidSetting, match="FORBIDDEN_FLAGS must return a list of flags"):
        flags()


@pytest.mark.parametrize("kind", [list, tuple, set, iter])
def test_a_function_may_return_flags_in_anything_that_can_be_read(kind: Any) -> None:
    flags = arguments.resolve_flags(lambda: kind(["noisy"]))
    assert callable(flags)
    assert flags() == ["noisy"]
