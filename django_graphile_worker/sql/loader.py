"""Read an SQL file of this package and put the schema's name into it.

`:SCHEMA` is the only token. It stands for the *quoted* identifier, so that a schema name may hold
capitals, spaces, dots and quotes. A token that is unknown, or left over, is an error: a statement
with a hole in it must never reach a database.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

from django_graphile_worker.exceptions import SqlFileError

# A colon is also PostgreSQL's cast (`::text`), slice (`[1:2]`) and, inside json, punctuation;
# only a lone colon before capitals is a token of ours.
_TOKEN = re.compile(r"(?<!:):([A-Z][A-Z_]*)\b")


def quote(name: str) -> str:
    """Return `name` as a quoted PostgreSQL identifier."""
    return '"' + name.replace('"', '""') + '"'


@cache
def load(path: str) -> str:
    """Return the text of an SQL file.

    `path` is relative to `django_graphile_worker/sql`, with forward slashes, for instance
    `"queries/get_jobs.sql"`. Raises `SqlFileError` when there is no such file.
    """
    try:
        return resources.files(__package__).joinpath(*path.split("/")).read_text(encoding="utf-8")
    except OSError as error:
        raise SqlFileError(f"There is no SQL file {path!r} in this package.") from error


def files(folder: str) -> list[str]:
    """Return the paths of the `.sql` files of a folder, sorted by name, `down.sql` left out."""
    found = resources.files(__package__).joinpath(*folder.split("/"))
    names = sorted(entry.name for entry in found.iterdir() if entry.name.endswith(".sql"))
    return [f"{folder}/{name}" for name in names if name != "down.sql"]


def render(text: str, schema: str, *, parameters: bool = False) -> str:
    """Return `text` with `:SCHEMA` replaced by the quoted `schema`.

    `parameters` tells that the text will be sent with parameters: a `%` in the schema's name is
    then doubled, as the driver asks. Raises `SqlFileError` for any other token.
    """
    quoted = quote(schema)
    if parameters:
        quoted = quoted.replace("%", "%%")

    # A function, not a replacement string: `\` and `$` in a name mean nothing special then.
    def replace(match: re.Match[str]) -> str:
        if match[1] != "SCHEMA":
            raise SqlFileError(f"Unknown token :{match[1]} in an SQL file of this package.")
        return quoted

    return _TOKEN.sub(replace, text)


@cache
def query(name: str, schema: str) -> str:
    """Return the living query `queries/<name>.sql`, rendered for `schema` and for parameters."""
    return render(load(f"queries/{name}.sql"), schema, parameters=True)
