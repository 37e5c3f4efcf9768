"""Reads pages as a browser does, and follows every link and every form of the queue's admin."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qsl, urljoin, urlsplit

from django.urls import Resolver404, resolve

# A tag and an attribute that only an unescaped text can bring about.
TAG = "x-probe"
ATTRIBUTE = "onprobe"

LINKS = {"a": "href", "area": "href"}
RESOURCES = {"img": "src", "script": "src", "link": "href", "iframe": "src", "use": "href"}


@dataclass
class Form:
    """What pressing a button of a form would send."""

    method: str
    action: str
    fields: list[tuple[str, str]] = field(default_factory=list)
    # The name of a select, or of radio buttons, with the values that can be chosen.
    choices: dict[str, list[str]] = field(default_factory=dict)
    buttons: list[tuple[str, str]] = field(default_factory=list)

    def requests(self) -> Iterator[list[tuple[str, str]]]:
        """What is sent with each button, and with each value of each select."""
        first = {name: values[0] for name, values in self.choices.items() if values}
        for button in self.buttons:  # without any, nothing can be sent
            pressed = [button] if button[0] else []
            yield [*self.fields, *first.items(), *pressed]
            for name, values in self.choices.items():
                for value in values[1:]:
                    yield [*self.fields, *(first | {name: value}).items(), *pressed]


class Document(HTMLParser):
    """A page: its links and forms, and what must not be in it."""

    def __init__(self, markup: str) -> None:
        super().__init__(convert_charrefs=True)
        self.links: list[str] = []
        self.resources: list[str] = []
        self.forms: list[Form] = []
        self.faults: list[str] = []
        self.text = ""
        self._form: Form | None = None
        self._select: str | None = None
        self._inline: str | None = None
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == TAG or ATTRIBUTE in given:
            self.faults.append(f"not escaped: {self.get_starttag_text()}")
        self.faults += [f"inline script: {name}" for name in given if name.startswith("on")]
        if tag in LINKS and LINKS[tag] in given:
            self.links.append(given[LINKS[tag]])
        if tag in RESOURCES and RESOURCES[tag] in given:
            self.resources.append(given[RESOURCES[tag]])
        if tag == "script" and "src" not in given and "json" not in given.get("type", ""):
            self.faults.append("inline script")
        self.text += " " + " ".join(given.values())
        self._handle_form(tag, given)

    def _handle_form(self, tag: str, given: dict[str, str]) -> None:
        if tag == "form":
            self._form = Form(given.get("method", "get").lower(), given.get("action", ""))
            self.forms.append(self._form)
        form = self._form
        if form is None:
            return
        name, value, kind = given.get("name", ""), given.get("value", ""), given.get("type", "text")
        if tag == "select":
            self._select = name
            form.choices[name] = []
        elif tag == "option" and self._select is not None:
            form.choices[self._select].append(value)
        elif tag == "button" or (tag == "input" and kind == "submit"):
            form.buttons.append((name, value))
        elif tag == "input" and kind == "radio":
            form.choices.setdefault(name, []).append(value)
        elif (tag == "input" and name) or (tag == "textarea" and name):
            form.fields.append((name, value or ("on" if kind == "checkbox" else "")))

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None
        elif tag == "select":
            self._select = None

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        # Nobody looks for a secret there.
        self.text += data


@dataclass(frozen=True)
class Visit:
    url: str
    status: int
    document: Document
    response: Any


class Crawler:
    """Follows links from a page on, as long as they lead to the queue's own pages.

    Of pages that differ by a value only, an id or a filter's, it visits `alike`.
    """

    def __init__(self, get: Callable[[str], Any], *, alike: int = 12, parameters: int = 2) -> None:
        self.get = get
        self.alike = alike
        self.parameters = parameters
        self.others: set[str] = set()
        """Links that lead elsewhere."""

    def crawl(self, *starts: str) -> Iterator[Visit]:
        queue, seen, shapes = deque(starts), set(starts), Counter[object]()
        while queue:
            url = queue.popleft()
            response = self.get(url)
            document = Document(response.content.decode())
            yield Visit(url, response.status_code, document, response)
            for link in document.links:
                target = urljoin(url, link).partition("#")[0]
                if target in seen:
                    continue
                seen.add(target)
                shape = shape_of(target)
                if shape is None:
                    self.others.add(target)
                elif shapes[shape] < self.alike and len(shape[1]) <= self.parameters:
                    shapes[shape] += 1
                    queue.append(target)


def shape_of(url: str) -> tuple[str, tuple[str, ...]] | None:
    """What pages that differ by a value only have in common; `None` for what is not ours."""
    parts = urlsplit(url)
    if parts.scheme not in ("", "http") or parts.netloc not in ("", "testserver"):
        return None
    try:
        match = resolve(parts.path)
    except Resolver404:
        return None
    name = match.url_name or ""
    if not (name.startswith("graphile_worker_") or match.kwargs.get("app_label")):
        return None
    if match.kwargs.get("app_label", "graphile_worker") != "graphile_worker":
        return None
    query = parse_qsl(parts.query, keep_blank_values=True)
    return name, tuple(sorted({key for key, _value in query}))
