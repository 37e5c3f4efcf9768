"""Log records as JSON: one line each, whatever is in them."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from django_graphile_worker.worker.logs import LONGEST_EXCEPTION, JsonFormatter, TextFormatter
from tests.worker.bench import MakeBench, job

Lines = list[dict[str, Any]]


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """What the logger `graphile_worker` writes."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger("graphile_worker")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield stream
    logger.removeHandler(handler)
    logger.setLevel(level)


def lines(stream: io.StringIO) -> Lines:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


logger = logging.getLogger("graphile_worker")


def test_a_record_is_one_object_in_one_line_of_ascii(stream: io.StringIO) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    logger.info("Job %s\nfoun\N{LATIN SMALL LETTER D WITH STROKE}", 7, extra={"job_id": 7})

    (line,) = lines(stream)
    assert list(line) == ["time", "level", "logger", "message", "job_id"]
    assert line["level"] == "INFO"
    assert line["logger"] == "graphile_worker"
    assert line["message"] == "Job 7\nfoun\N{LATIN SMALL LETTER D WITH STROKE}"
    assert line["job_id"] == 7
    time = datetime.fromisoformat(line["time"])
    assert time.utcoffset() is not None
    assert before <= time <= datetime.now(UTC)
    assert stream.getvalue().isascii()
    assert stream.getvalue().count("\n") == 1


class Unshowable:
    def __repr__(self) -> str:
        raise ValueError("no")

    __str__ = __repr__


class UnshowableError(Exception):
    def __str__(self) -> str:
        raise SystemExit("no")


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize(
    ("extra", "shown"),
    [
        (Unshowable(), "<Unshowable that cannot be shown>"),
        (float("nan"), "nan"),
        (CIRCLE, "[[...]]"),
        ({1, 2}, "{1, 2}"),
        (datetime(2026, 1, 1, tzinfo=UTC), "datetime.datetime(2026, 1, 1, 0, 0, tzinfo="),
        ("\ud83e\0", "\ud83e\0"),
        ({"a": [1, None]}, {"a": [1, None]}),
        ({(1, 2): 3}, {}),
    ],
)
def test_any_extra_can_be_shown(stream: io.StringIO, extra: Any, shown: Any) -> None:
    logger.info("x", extra={"extra": extra})

    (line,) = lines(stream)
    found = line["extra"]
    assert found == shown or (isinstance(shown, str) and found.startswith(shown))


def test_extras_do_not_take_the_place_of_what_every_line_has(stream: io.StringIO) -> None:
    logger.info("x", extra={"level": 1, "time": 2, "logger": 3, "exception": 4})

    (line,) = lines(stream)
    assert line["level"] == "INFO"
    assert (line["level_"], line["time_"], line["logger_"], line["exception_"]) == (1, 2, 3, 4)


@pytest.mark.parametrize("arguments", [(Unshowable(),), (1, 2, 3)])
def test_a_message_whose_arguments_do_not_fit_is_told_all_the_same(
    arguments: tuple[Any, ...],
) -> None:
    # Past the logger, since pytest's own handler raises at such a record.
    record = logging.makeLogRecord({"msg": "found %s and no more", "args": arguments})

    line = json.loads(JsonFormatter().format(record))
    assert line["message"] == "'found %s and no more' (its arguments cannot be shown)"


def test_an_exception_comes_with_its_traceback_also_one_that_cannot_be_shown(
    stream: io.StringIO,
) -> None:
    for error in (ValueError("boom\0"), UnshowableError()):
        try:
            raise error
        except Exception:
            logger.exception("failed", stack_info=True)

    first, second = lines(stream)
    assert "Traceback" in first["exception"]
    assert "ValueError: boom\0" in first["exception"]
    assert first["stack"].startswith("Stack")
    assert "UnshowableError" in second["exception"]
    assert sys.exc_info() == (None, None, None)


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter("%(message)s")])
def test_an_exception_of_megabytes_is_cut_in_the_middle(formatter: logging.Formatter) -> None:
    try:
        raise ValueError("begins " + "x" * 5_000_000 + " ends")
    except ValueError:
        record = logging.LogRecord("n", logging.ERROR, "p", 1, "failed", (), sys.exc_info())
    text = formatter.format(record)
    assert len(text) < LONGEST_EXCEPTION + 500
    assert "ValueError: begins xxx" in text
    assert "xxx ends" in text
    assert "characters left out" in text


def test_a_failed_job_is_one_line_with_its_ids_and_without_its_payload(
    stream: io.StringIO, make_bench: MakeBench
) -> None:
    def task(secret: str) -> None:
        raise ValueError("boom")

    make_bench(task).run(job(7, payload={"secret": "sesame"}, attempts=2))

    (line,) = lines(stream)
    assert line["job_id"] == 7
    assert line["task_identifier"] == "task"
    assert line["attempt"] == 2
    assert line["worker_id"] == "worker"
    assert line["level"] == "ERROR"
    assert "ValueError: boom" in line["exception"]
    assert "sesame" not in stream.getvalue()
