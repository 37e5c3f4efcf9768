"""The texts that can be translated, as the sources have them, and as the catalogs do."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from django.utils.translation.template import templatize

PACKAGE = Path(__file__).resolve().parents[1] / "django_graphile_worker"
LOCALES = PACKAGE / "locale"

# The functions that mark a text, with the places of its context, itself and its plural.
CALLS = {
    "gettext": (None, 0, None),
    "gettext_noop": (None, 0, None),
    "ngettext": (None, 0, 1),
    "pgettext": (0, 1, None),
    "npgettext": (0, 1, 2),
}

PLACEHOLDER = re.compile(r"%(?:\(\w+\))?[sd]|\{\w*\}")


@dataclass(frozen=True, order=True)
class Text:
    """A text in English: its context, itself, and its plural; empty where it has none."""

    context: str
    text: str
    plural: str


@dataclass
class Catalog:
    """A file of translations."""

    path: Path
    header: str = ""
    comments: str = ""
    texts: dict[Text, list[str]] = field(default_factory=dict)
    fuzzy: list[Text] = field(default_factory=list)


def in_sources() -> set[Text]:
    """Every text of the package that is marked to be translated."""
    found: set[Text] = set()
    for path in PACKAGE.rglob("*.py"):
        found.update(in_python(path.read_text(encoding="utf-8")))
    for path in PACKAGE.rglob("*.html"):
        found.update(in_template(path.read_text(encoding="utf-8")))
    return found


def in_python(source: str) -> Iterator[Text]:
    tree = ast.parse(source)
    names = {"_": "gettext"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "django.utils.translation":
            names |= {alias.asname or alias.name: alias.name for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            called = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            places = CALLS.get(names.get(called, called).removesuffix("_lazy"))
            if places is not None:
                yield Text(*(argument(node, place) for place in places))


def argument(call: ast.Call, place: int | None) -> str:
    if place is None:
        return ""
    value = ast.literal_eval(call.args[place])
    assert isinstance(value, str)
    return value


def in_template(source: str) -> Iterator[Text]:
    """Django turns a template into something like Python, which is what xgettext reads."""
    string = r"""u?('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
    call = re.compile(
        rf"\b(_|n?p?gettext)\(\s*{string}\s*(?:,\s*{string}\s*)?(?:,\s*{string}\s*)?[,)]"
    )
    for found in call.finditer(templatize(source)):
        given = [ast.literal_eval(text) for text in found.groups()[1:] if text is not None]
        context, text, plural = CALLS["gettext" if found[1] == "_" else found[1]]
        yield Text(
            "" if context is None else given[context],
            given[text or 0],
            "" if plural is None else given[plural],
        )


def read(path: Path) -> Catalog:
    """Read a catalog; what is out of use is passed over."""
    catalog = Catalog(path)
    for block in path.read_text(encoding="utf-8").split("\n\n"):
        lines = [line for line in block.splitlines() if not line.startswith("#~")]
        flags = " ".join(line for line in lines if line.startswith("#,"))
        fields: dict[str, str] = {}
        name = ""
        for line in lines:
            if line.startswith("#"):
                continue
            if not line.startswith('"'):
                name, _, line = line.partition(" ")
            fields[name] = fields.get(name, "") + ast.literal_eval(line)
        if "msgid" not in fields:
            continue
        text = Text(fields.get("msgctxt", ""), fields["msgid"], fields.get("msgid_plural", ""))
        said = [value for name, value in fields.items() if name.startswith("msgstr")]
        if not text.text:
            catalog.header = said[0]
            catalog.comments = "\n".join(line for line in lines if line.startswith("#"))
        elif "fuzzy" in flags:
            catalog.fuzzy.append(text)
        else:
            catalog.texts[text] = said
    return catalog


def placeholders(text: str) -> set[str]:
    return set(PLACEHOLDER.findall(text.replace("%%", "")))
