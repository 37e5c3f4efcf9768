from __future__ import annotations

import datetime
import decimal
import enum
import inspect
import json
import math
import sys
import uuid
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils.functional import lazystr
from django.utils.safestring import mark_safe
from django.utils.translation import gettext_lazy
from hypothesis import given, settings
from hypothesis import strategies as st

from django_graphile_worker.exceptions import InvalidJob, InvalidJobType
from django_graphile_worker.payloads import MAX_DEPTH, decode, encode

text = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**1024) + 1, 2**1024 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text
)
documents = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(text, inner), max_leaves=30
)
refused = st.sampled_from(
    [
        math.nan,
        math.inf,
        -math.inf,
        "a\0b",
        "\ud800",
        "é\udfff",
        {1: "a"},
        {None: 1},
        {"a\0": 1},
        datetime.datetime(2026, 1, 1),  # noqa: DTZ001
        decimal.Decimal("1.5"),
        uuid.UUID(int=1),
        {"a"},
        b"a",
        object(),
        2**1024,
        -(10**4000),
    ]
)


class Colour(enum.StrEnum):
    RED = "red"


class Size(enum.IntEnum):
    LARGE = 3


Point = namedtuple("Point", "x y")


@dataclass
class Letter:
    to: str


@settings(deadline=None)
@given(documents)
def test_what_is_encoded_comes_back_equal(document: Any) -> None:
    decoded = decode(encode(document))
    assert decoded == document
    # 1 == True == 1.0 to Python; to other languages they differ.
    assert repr(decoded) == repr(document)


@settings(deadline=None)
@given(documents)
def test_what_is_encoded_is_strict_json_that_postgresql_can_store(document: Any) -> None:
    def never(constant: str) -> None:
        raise AssertionError(constant)

    encoded = encode(document)
    encoded.encode("utf-8")
    json.loads(encoded, parse_constant=never)
    assert "\0" not in encoded


def place(document: Any, path: list[str | int], value: Any) -> Any:
    """Wrap a value so that it lies at a path."""
    for step in reversed(path):
        value = (
            [document] * step + [value] if isinstance(step, int) else {"x": document, step: value}
        )
    return value


@settings(deadline=None)
@given(
    documents,
    st.lists(st.integers(0, 3) | st.sampled_from(["items", "when", "two words"]), max_size=10),
    refused,
)
def test_a_value_is_refused_wherever_it_lies_and_its_path_is_told(
    document: Any, path: list[str | int], value: Any
) -> None:
    steps = {"items": ".items", "when": ".when", "two words": '["two words"]'}
    told = "payload" + "".join(steps[s] if isinstance(s, str) else f"[{s}]" for s in path)
    with pytest.raises(InvalidJob) as refusal:
        encode(place(document, path, value))
    assert str(refusal.value).startswith(told)


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=[])))
def test_a_string_is_refused_only_for_nul_and_lone_surrogates(value: str) -> None:
    bad = "\0" in value or any("\ud800" <= character <= "\udfff" for character in value)
    if bad:
        with pytest.raises(InvalidJob, match=r"NUL|surrogate"):
            encode(value)
    else:
        assert decode(encode(value)) == value


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ({"n": math.nan}, "payload.n is nan, which JSON has not"),
        ({"items": [1, {"when": math.inf}]}, "payload.items[1].when is inf"),
        ({"a b": "\0"}, 'payload["a b"] holds a NUL character'),
        ({"a": {"x\0": 1}}, 'payload.a["x\\u0000"] is under a key that holds a NUL character'),
        ({"a": ["\ud83e"]}, "payload.a[0] holds a lone surrogate"),
        ({"\ud83e": 1}, 'payload["\\ud83e"] is under a key that holds a lone surrogate'),
        ({"n": 2**1024}, "payload.n is an integer that other languages read as Infinity"),
        ([10**4000], "payload[0] is an integer"),
    ],
)
def test_a_bad_value_is_named_with_its_path(payload: Any, message: str) -> None:
    with pytest.raises(InvalidJob) as refusal:
        encode(payload)
    assert str(refusal.value).startswith(message)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            datetime.datetime.now(datetime.UTC),
            "of type datetime, which JSON has not; pass value.iso",
        ),
        (datetime.date(2026, 1, 1), "pass value.isoformat()"),
        (datetime.time(1), "pass value.isoformat()"),
        (datetime.timedelta(1), "pass value.total_seconds()"),
        (decimal.Decimal(1), "pass str(value)"),
        (uuid.uuid4(), "pass str(value)"),
        ({1}, "pass a list"),
        (frozenset("a"), "pass a list"),
        (b"x", "base64"),
        (bytearray(b"x"), "base64"),
        (gettext_lazy("Hello"), "lazy string; pass str(value)"),
        (lazystr("Hello"), "lazy string; pass str(value)"),
        (User(pk=7), "model instance (User); pass its primary key"),
        (Letter("a"), "is of type Letter, which JSON has not"),
        (1j, "is of type complex"),
        (range(3), "is of type range"),
        ((x for x in [1]), "is of type generator"),
        ({1: 2}, "has the key 1 of type int; JSON's keys are strings"),
        ({True: 2}, "has the key True of type bool"),
        ({(1, 2): 2}, "has the key (1, 2) of type tuple"),
    ],
)
def test_a_type_that_json_lacks_is_refused_and_told_how_to_pass(value: Any, message: str) -> None:
    with pytest.raises(InvalidJobType) as refusal:
        encode({"items": [0, value]})
    assert str(refusal.value).startswith("payload.items[1] ")
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        ((1, (2,)), "[1,[2]]"),
        (Point(1, 2), "[1,2]"),
        (Colour.RED, '"red"'),
        (Size.LARGE, "3"),
        ({Colour.RED: Size.LARGE}, '{"red":3}'),
        (mark_safe("<b>"), '"<b>"'),
        (OrderedDict(b=1, a=2), '{"b":1,"a":2}'),
        (2**53 + 1, "9007199254740993"),
        ("é😀\u2028", '"é😀\u2028"'),
        (-0.0, "-0.0"),
    ],
)
def test_subclasses_and_tuples_are_encoded_as_what_they_are(value: Any, encoded: str) -> None:
    assert encode(value) == encoded


def test_an_integer_too_long_for_python_to_print_is_refused() -> None:
    with pytest.raises(InvalidJob, match=r"^payload\.n is an integer"):
        encode({"n": 10**5000})


def test_a_literal_backslash_u0000_is_no_nul() -> None:
    assert decode(encode("\\u0000")) == "\\u0000"


def nested(levels: int) -> Any:
    value: Any = 1
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


def test_the_deepest_payload_passes_and_one_level_more_is_refused() -> None:
    assert decode(encode(nested(MAX_DEPTH))) == nested(MAX_DEPTH)
    with pytest.raises(InvalidJob, match=f"deeper than {MAX_DEPTH} levels") as refusal:
        encode(nested(MAX_DEPTH + 1))
    assert len(str(refusal.value)) < 200
    with pytest.raises(InvalidJob, match="deeper than"):
        encode(nested(100_000))


def test_a_circular_payload_is_refused_where_it_closes() -> None:
    letter: dict[str, Any] = {"items": [1, 2]}
    letter["items"].append({"parent": letter["items"]})
    with pytest.raises(InvalidJob) as refusal:
        encode(letter)
    assert str(refusal.value) == (
        "payload.items[2].parent refers back to payload.items: a circular reference"
    )
    itself: list[Any] = []
    itself.append(itself)
    with pytest.raises(InvalidJob, match=r"^payload\[0\] refers back to payload: a circular"):
        encode(itself)


def test_the_same_value_twice_is_not_circular() -> None:
    shared = {"a": [1]}
    assert encode([shared, shared, {"b": shared}]) == '[{"a":[1]},{"a":[1]},{"b":{"a":[1]}}]'


def test_no_recursion_error_escapes_where_little_of_the_stack_is_left() -> None:
    payload = nested(MAX_DEPTH)

    def encode_below(frames: int) -> str:
        return encode_below(frames - 1) if frames else encode(payload)

    outcomes: set[bool | str] = set()
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 300)
    try:
        for frames in range(0, 280, 10):
            try:
                outcomes.add(encode_below(frames) == encode(payload))
            except InvalidJob as error:
                outcomes.add(str(error))
    finally:
        sys.setrecursionlimit(limit)
    assert outcomes == {True, "payload is nested too deeply for the stack that is left"}


@pytest.mark.parametrize(
    ("stored", "value"),
    [
        ('{"a":"x\\u0000y"}', {"a": "x\0y"}),
        ('"\\ud83e"', "\ud83e"),
        ('{"a":1,"a":2}', {"a": 2}),
        (" [ 1 ] ", [1]),
        ("null", None),
        ("9007199254740993", 2**53 + 1),
        ("1e308", 1e308),
    ],
)
def test_what_another_language_stored_is_read(stored: str, value: Any) -> None:
    assert decode(stored) == value


@pytest.mark.parametrize(
    "stored", ["1e400", "[-1e999]", "[" * 200_000 + "]" * 200_000, "1" * 5000, ""]
)
def test_what_cannot_be_read_is_an_invalid_job(stored: str) -> None:
    with pytest.raises(InvalidJob, match="payload"):
        decode(stored)
