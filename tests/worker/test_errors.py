"""What a failed job says: short enough, storable, whatever was raised."""

from __future__ import annotations

import psycopg
import pytest

from django_graphile_worker.worker.errors import LONGEST_ERROR, describe, storable
from tests.conftest import Connect


def caught(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as raised:  # noqa: BLE001 - that is what is tested
        return raised


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise SystemExit("even this")


def test_type_and_message_come_first_and_the_place_last() -> None:
    text = describe(caught(ValueError("boom")))

    assert text.startswith("ValueError: boom\n\n")
    assert text.endswith("raise error")
    assert "in caught" in text


def test_without_a_message_the_type_is_enough() -> None:
    assert describe(KeyError()) == "KeyError"


def test_an_error_that_cannot_be_shown_is_told_all_the_same() -> None:
    assert describe(caught(Unspeakable())).startswith("Unspeakable: (its message cannot be shown)")


@pytest.mark.parametrize(
    "message",
    ["a\0b", "\ud83e alone", "x" * 5_000_000, "\N{GRINNING FACE}" * 100_000, "\0" * 20_000],
)
def test_any_message_can_be_stored(connect: Connect, message: str) -> None:
    text = describe(caught(ValueError(message)))

    assert len(text) <= LONGEST_ERROR
    row = connect().execute("select %s::text", [text]).fetchone()
    assert row == (text,)


def test_a_cut_text_ends_with_a_mark_and_keeps_the_place() -> None:
    text = describe(caught(ValueError("x" * 5_000_000)))
    head, _, frames = text.partition("\n\n")

    assert head.endswith("x\N{HORIZONTAL ELLIPSIS}")
    assert "in caught" in frames


def test_endless_recursion_is_described_shortly() -> None:
    def deeper() -> None:
        deeper()

    with pytest.raises(RecursionError) as raised:
        deeper()
    text = describe(raised.value)
    assert text.startswith("RecursionError")
    assert len(text) <= LONGEST_ERROR


def test_unstorable_characters_are_replaced_one_by_one(connect: Connect) -> None:
    assert storable("a\0b\ud800c") == "a\ufffdb\ufffdc"
    with pytest.raises((psycopg.Error, UnicodeEncodeError)):
        connect().execute("select %s::text", ["\ud800"])


def test_a_group_tells_the_first_of_its_errors(connect: Connect) -> None:
    inner = ExceptionGroup("inner", [KeyError("b"), Unspeakable(), ValueError("x" * 5_000)])
    text = describe(caught(ExceptionGroup("outer\0", [OSError("a"), inner])))

    head = text.partition("\n\n")[0].splitlines()
    assert head[:3] == [
        "ExceptionGroup: outer\ufffd (2 sub-exceptions)",
        "- OSError: a",
        "- KeyError: 'b'",
    ]
    assert head[3].startswith("- Unspeakable: (its message cannot be shown)")
    assert len(head[4]) <= 302
    assert len(head) == 5

    many = describe(ExceptionGroup("many", [ValueError(n) for n in range(1_000)]))
    assert many.endswith("- and more")
    assert len(many.splitlines()) == 12


class OddText(str):
    def __getitem__(self, key: object) -> str:
        raise RuntimeError("no slices")


class Odd(Exception):
    def __str__(self) -> str:
        return OddText("odd")


def test_a_message_that_is_no_plain_string_is_taken_by_its_characters() -> None:
    assert describe(Odd()) == "Odd: odd"
