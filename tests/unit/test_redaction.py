"""What people read of a payload has no secret in it, or is nothing at all."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from django.conf import LazySettings

from django_graphile_worker.conf import get_config
from django_graphile_worker.exceptions import InvalidSetting
from django_graphile_worker.redaction import LONGEST, MASK, Withheld, hides_nothing, readable

SECRET = "hunter2"


def show(payload: Any) -> str:
    return readable(json.dumps(payload), "send_letter")


@pytest.mark.parametrize(
    "payload",
    [
        {"password": SECRET},
        {"PASSWORD": SECRET},
        {"db-passwd": SECRET},
        {"apiKey": SECRET},
        {"X-Api-Key": SECRET},
        {"x_access_token_2": SECRET},
        {"Authorization": f"Bearer {SECRET}"},
        {"headers": {"Set-Cookie": SECRET}},
        {"list": [[{"deep": {"client_secret": [SECRET, {"a": SECRET}]}}]]},
        [{"credentials": {"user": SECRET}}],
        {"Pa\N{LATIN SMALL LETTER LONG S}sword": SECRET},
    ],
    ids=str,
)
def test_a_secret_is_masked_wherever_it_is(payload: Any) -> None:
    shown = show(payload)
    assert SECRET not in shown
    assert MASK in shown


def test_a_key_that_is_escaped_is_the_same_key() -> None:
    assert SECRET not in readable(f'{{"\\u0070assword": "{SECRET}"}}', "t")


def test_each_of_two_equal_keys_is_masked() -> None:
    assert SECRET not in readable(f'{{"token": "{SECRET}", "token": "{SECRET}2"}}', "t")


def test_all_else_is_shown_as_it_was_written() -> None:
    payload: Any = {"to": "ä@b", "n": [1, 2.50, None, True, {}, []], "<b>": "'\"&"}
    assert json.loads(show(payload)) == payload
    assert show({"a": {"b": [1]}}) == '{\n  "a": {\n    "b": [\n      1\n    ]\n  }\n}'
    text = f"[1e400, 0.10, 123456789012345678901234567890, {'9' * 10_000}]"
    shown = readable(text, "t")
    for number in ("1e400", "0.10", "123456789012345678901234567890", "9" * 10_000):
        assert f"  {number}" in shown


def test_a_lone_surrogate_can_be_shown() -> None:
    shown = readable('"\\ud800\\u0000"', "t")
    assert shown.encode() == b'"\\ud800\\u0000"'


@pytest.mark.parametrize(
    "text",
    [
        "[" * 5_000 + f'{{"password": "{SECRET}"}}' + "]" * 5_000,
        "[" * 300 + f'"{SECRET}"' + "]" * 300,
        f'{{"password": "{SECRET}"',
        "x" * (LONGEST + 1),
    ],
    ids=["deep", "deeper than is written", "cut", "long"],
)
def test_what_cannot_be_looked_through_is_not_shown(text: str) -> None:
    with pytest.raises(Withheld) as withheld:
        readable(text, "t")
    assert "nothing of it is shown" in str(withheld.value.reason)
    assert withheld.value.__cause__ is None


def test_a_list_is_what_is_hidden(settings: LazySettings) -> None:
    settings.GRAPHILE_WORKER = {"REDACT": ["iban"]}
    shown = show({"IBAN-number": SECRET, "password": "seen"})
    assert SECRET not in shown
    assert "seen" in shown
    assert not hides_nothing()
    settings.GRAPHILE_WORKER = {"REDACT": []}
    assert hides_nothing()
    assert "seen" in show({"password": "seen"})


def without_names(payload: Any, task_identifier: str) -> Any:
    assert SECRET not in str(payload)  # the words are applied before
    return {**payload, "name": f"somebody of {task_identifier}"}


@pytest.mark.parametrize("function", [without_names, f"{__name__}.without_names"])
def test_a_function_may_change_more(settings: LazySettings, function: Any) -> None:
    settings.GRAPHILE_WORKER = {"REDACT": function}
    shown = json.loads(show({"name": "Ada", "password": SECRET, "n": 1}))
    assert shown == {"name": "somebody of send_letter", "password": MASK, "n": 1}


def fails(payload: Any, task_identifier: str) -> Any:
    raise KeyError(payload["name"])


@pytest.mark.parametrize("function", [fails, "nowhere.to_be_found", lambda *_: object()])
def test_a_function_that_fails_shows_nothing(
    settings: LazySettings, function: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.GRAPHILE_WORKER = {"REDACT": function}
    with caplog.at_level(logging.DEBUG), pytest.raises(Withheld):
        show({"name": SECRET})
    assert SECRET not in caplog.text


@pytest.mark.parametrize("value", ["password", [""], ["-"], [1], None, {"password"}, 7])
def test_another_value_is_refused(settings: LazySettings, value: Any) -> None:
    settings.GRAPHILE_WORKER = {"REDACT": value}
    with pytest.raises(InvalidSetting, match="REDACT"):
        get_config()
