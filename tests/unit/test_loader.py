from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from django_graphile_worker.exceptions import SqlFileError
from django_graphile_worker.sql import loader


def test_a_file_is_found_by_its_path() -> None:
    assert loader.load("queries/add_job.sql").startswith("-- Add one job")


@pytest.mark.parametrize("path", ["queries/no_such.sql", "queries", "no/such/folder.sql"])
def test_a_file_that_is_not_there_is_an_error_with_its_path(path: str) -> None:
    with pytest.raises(SqlFileError, match=path):
        loader.load(path)


def test_the_files_of_a_folder_come_in_order_and_without_the_way_down() -> None:
    found = loader.files("schema/0001")
    assert found == sorted(found)
    assert found[0] == "schema/0001/00_schema.sql"
    assert "schema/0001/down.sql" not in found


@pytest.mark.parametrize(
    ("schema", "quoted"),
    [
        ("graphile_worker", '"graphile_worker"'),
        ("My Queue", '"My Queue"'),
        ('a"b', '"a""b"'),
        ("dots.in.it", '"dots.in.it"'),
        (r"\1 \g<0> $1", r'"\1 \g<0> $1"'),
        (":SCHEMA", '":SCHEMA"'),
    ],
)
def test_the_token_becomes_the_quoted_name(schema: str, quoted: str) -> None:
    assert loader.render("select :SCHEMA.f(:SCHEMA.t)", schema) == f"select {quoted}.f({quoted}.t)"


@settings(deadline=None)
@given(st.text(min_size=1))
def test_any_name_is_put_in_once_and_read_as_it_is(schema: str) -> None:
    rendered = loader.render("a :SCHEMA b", schema)
    assert rendered[:3] + rendered[-3:] == 'a "' + '" b'
    assert rendered[3:-3].replace('""', '"') == schema


@pytest.mark.parametrize("token", [":SCHEME", ":NOW", ":S", ":SCHEMA_"])
def test_an_unknown_token_is_refused(token: str) -> None:
    with pytest.raises(SqlFileError, match=f"token {token}"):
        loader.render(f"select {token}", "s")


@pytest.mark.parametrize("text", ["a::text", "a::TEXT", "v[1:2]", "'12:30'", "%(now)s", ":schema"])
def test_what_only_looks_like_a_token_stays(text: str) -> None:
    assert loader.render(text, "s") == text


def test_a_percent_sign_in_a_name_is_doubled_where_parameters_are_sent() -> None:
    assert loader.render(":SCHEMA", "100%", parameters=True) == '"100%%"'
    assert loader.render(":SCHEMA", "100%") == '"100%"'
    assert '"100%%".add_job(' in loader.query("add_job", "100%")
