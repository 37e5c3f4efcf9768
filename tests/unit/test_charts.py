"""Charts: what stands where, whatever the numbers are."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.utils import translation
from hypothesis import given
from hypothesis import strategies as st

from django_graphile_worker.admin.charts import (
    HEIGHT,
    MARKS,
    WIDTH,
    Chart,
    Series,
    bars,
    count,
    duration,
    lines,
    place,
    round_above,
)

counts = st.integers(0, 10**12)
durations = st.none() | st.floats(0.0, 10.0**7)


def drawn(draw: Any, *values: list[Any]) -> Chart:
    series = [Series(f"series {n}", f"style{n}", each) for n, each in enumerate(values)]
    times = [str(n) for n in range(len(values[0]))]
    chart: Chart = draw("name", "title", series, description="text", times=times, x_labels=["a"])
    return chart


@given(st.lists(st.tuples(counts, counts), min_size=1, max_size=100))
def test_bars_stand_on_each_other_and_within_the_plot(values: list[tuple[int, int]]) -> None:
    chart = drawn(bars, [a for a, _ in values], [b for _, b in values])
    shown = [n for n, pair in enumerate(values) if sum(pair)]
    assert [step.text.partition(":")[0] for step in chart.steps] == [str(n) for n in shown]
    for step in chart.steps:
        foot = float(HEIGHT)
        for bar in step.bars:
            assert float(bar.y) + float(bar.height) == pytest.approx(foot, abs=0.02)
            foot = float(bar.y)
        assert foot >= -0.01
        assert -0.01 <= float(step.x) <= WIDTH - float(step.width) + 0.01


def test_the_highest_bar_has_the_height_of_its_number() -> None:
    chart = drawn(bars, [3, 0, 6], [0, 0, 0])
    assert chart.y_labels == ["6", "3", "0"]
    assert [(bar.y, bar.height) for step in chart.steps for bar in step.bars] == [
        (str(HEIGHT // 2), str(HEIGHT // 2)),
        ("0", str(HEIGHT)),
    ]
    assert [step.text for step in chart.steps] == [
        "0: 3 series 0, 0 series 1",
        "2: 6 series 0, 0 series 1",
    ]
    assert chart.lines == ["0", str(HEIGHT // 2), str(HEIGHT)]


def test_nothing_is_drawn_of_nothing() -> None:
    assert drawn(bars, [0, 0]).steps == []
    empty = drawn(lines, [None, None])
    assert empty.steps == []
    assert empty.paths == []
    assert len(empty.y_labels) > 1


@given(counts)
def test_a_scale_ends_at_an_even_number_not_far_above(number: int) -> None:
    top = round_above(number)
    assert top >= max(number, 2)
    assert top % 2 == 0
    assert top <= max(2 * number, 2)
    assert len(str(top).rstrip("0")) == 1


@given(st.lists(durations, min_size=1, max_size=100))
def test_lines_stay_within_the_plot_and_break_where_nothing_is(values: list[float | None]) -> None:
    chart = drawn(lines, values)
    path = "".join(path for _style, path in chart.paths)
    points = re.findall(r"([ML])([\d.]+) ([\d.]+)", path)
    assert len(points) == len([value for value in values if value is not None])
    for _kind, x, y in points:
        assert 0 <= float(x) <= WIDTH
        assert 0 <= float(y) <= HEIGHT
    begun = [
        n
        for n, value in enumerate(values)
        if value is not None and (n == 0 or values[n - 1] is None)
    ]
    assert path.count("M") == len(begun)
    assert 2 <= len(chart.y_labels) <= len(MARKS)


def test_a_value_between_two_gaps_is_a_dot() -> None:
    assert drawn(lines, [1.0, None, 1.0, 10.0]).paths == [
        ("style0", "M375 120L525 0"),
        ("style0 dot", "M75 120h0"),
    ]


@given(st.floats(MARKS[0], MARKS[-1]), st.floats(MARKS[0], MARKS[-1]))
def test_what_takes_longer_is_never_drawn_below(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert 0 <= place(low, MARKS) <= place(high, MARKS) <= 1


def test_a_mark_is_where_its_label_is() -> None:
    for number, mark in enumerate(MARKS):
        assert place(mark, MARKS) == pytest.approx(number / (len(MARKS) - 1))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 ms"),
        (0.0007, "0.7 ms"),
        (0.01, "10 ms"),
        (0.0999, "100 ms"),
        (1.0, "1 s"),
        (1.37, "1.4 s"),
        (9.97, "10 s"),
        (119.0, "119 s"),
        (600.0, "10 min"),
        (5_000.0, "83 min"),
        (36_000.0, "10 h"),
        (864_000.0, "10 d"),
        (float("inf"), "∞"),
    ],
)
def test_a_duration_has_two_digits(seconds: float, text: str) -> None:
    with translation.override("en"):
        assert duration(seconds).replace("\N{NO-BREAK SPACE}", " ") == text


def test_numbers_are_the_readers_and_coordinates_are_not() -> None:
    with translation.override("de"):
        assert count(1_234_567) == "1.234.567"
        assert duration(1.4) == "1,4\N{NO-BREAK SPACE}s"
        chart = drawn(bars, [1, 2, 1_000], [0, 0, 0])
        assert {step.x for step in chart.steps} == {"0", "200", "400"}
        heights = [bar.height for step in chart.steps for bar in step.bars]
        assert heights == ["0.12", "0.24", "120"]
