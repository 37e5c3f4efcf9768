"""The catalogs have every text, say all of it, and are what is compiled."""

from __future__ import annotations

import gettext

import pytest

from tests.translations import (
    LOCALES,
    Text,
    in_python,
    in_sources,
    in_template,
    placeholders,
    read,
)

LANGUAGES = sorted(path.name for path in LOCALES.iterdir())

each_language = pytest.mark.parametrize("language", LANGUAGES)


def path_of(language: str, suffix: str) -> str:
    return str(LOCALES / language / "LC_MESSAGES" / f"django{suffix}")


def test_there_are_german_and_french() -> None:
    assert LANGUAGES == ["de", "fr"]


@each_language
def test_every_text_is_translated_and_no_other(language: str) -> None:
    catalog = read(LOCALES / language / "LC_MESSAGES" / "django.po")
    sources = in_sources()
    assert len(sources) > 70
    assert sorted(sources - set(catalog.texts)) == []
    assert sorted(set(catalog.texts) - sources) == []
    assert catalog.fuzzy == []
    assert [text for text, said in catalog.texts.items() if not all(said)] == []
    assert "awaits a native reader" in catalog.comments


@each_language
def test_a_translation_keeps_what_is_filled_in(language: str) -> None:
    catalog = read(LOCALES / language / "LC_MESSAGES" / "django.po")
    for text, said in catalog.texts.items():
        assert len(said) == (2 if text.plural else 1), text
        wanted = placeholders(text.text) | placeholders(text.plural)
        for each in said[-1:]:
            assert placeholders(each) == wanted, text
        for each in said:
            assert placeholders(each) <= wanted, text


@each_language
def test_what_is_compiled_is_what_is_written(language: str) -> None:
    catalog = read(LOCALES / language / "LC_MESSAGES" / "django.po")
    written: dict[object, str] = {"": catalog.header}
    for text, said in catalog.texts.items():
        key = f"{text.context}\x04{text.text}" if text.context else text.text
        written |= (
            {(key, n): each for n, each in enumerate(said)} if text.plural else {key: said[0]}
        )
    with open(path_of(language, ".mo"), "rb") as file:
        compiled = gettext.GNUTranslations(file)
    assert compiled._catalog == written  # type: ignore[attr-defined]


def test_texts_are_found_in_python_and_in_templates() -> None:
    source = (
        "from django.utils.translation import gettext_lazy as _, pgettext_lazy, ngettext as n\n"
        "_('one' ' two'); pgettext_lazy('of', 'three'); n('four', 'fours', 4); other('five')"
    )
    expected = {Text("", "one two", ""), Text("of", "three", ""), Text("", "four", "fours")}
    assert set(in_python(source)) == expected
    template = (
        "{% load i18n %}{% translate 'one' %}{% translate \"it's\" context 'of' %}"
        "{% blocktranslate count n=n trimmed %}{{ n }} job\n"
        "{% plural %}{{ n }} jobs{% endblocktranslate %}"
        "<p title=\"{% translate 'two' as x %}\">{{ _('three') }}</p>"
    )
    assert set(in_template(template)) == {
        Text("", "one", ""),
        Text("of", "it's", ""),
        Text("", "%(n)s job", "%(n)s jobs"),
        Text("", "two", ""),
        Text("", "three", ""),
    }
