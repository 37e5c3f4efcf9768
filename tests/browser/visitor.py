"""A person at a window, who can only see and click. What a page does wrong fails the test."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django.urls import reverse

from tests import node

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Request

# Without a sandbox, which needs rights that a container may not give, and without whatever a
# browser does by itself in the background.
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-features=OptimizationHints,MediaRouter,Translate",
)

# Milliseconds: a bound and never a wait, for the slowest machine.
PATIENCE = 60_000

NARROW = 360

SERIOUS = {"serious", "critical"}


class Visitor:
    """A window of its own, with cookies of its own."""

    def __init__(
        self,
        browser: Browser,
        url: str,
        *,
        width: int = 1280,
        dark: bool = False,
        script: bool = True,
        language: str = "en",
    ) -> None:
        self.url = url
        self.faults: list[str] = []
        self.context = browser.new_context(
            base_url=url,
            viewport={"width": width, "height": 800},
            color_scheme="dark" if dark else "light",
            java_script_enabled=script,
            locale=language,
            reduced_motion="reduce",
        )
        self.context.set_default_timeout(PATIENCE)
        # What a browser asks for by itself, and no project here has.
        self.context.route("**/favicon.ico", lambda route: route.fulfill(status=204))
        self.page: Page = self.context.new_page()
        self.page.on("request", self._watch)
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))

    def close(self) -> None:
        self.context.close()
        assert self.faults == []

    def open(self, path: str) -> None:
        """Go to an address; the page must be there."""
        response = self.page.goto(path)
        assert response is not None
        assert response.status == 200, (path, response.status)

    def open_index(self) -> None:
        self.open(reverse("admin:index"))

    def click_link(self, name: str, **options: Any) -> None:
        self.page.get_by_role("link", name=name, **options).first.click()

    def text(self) -> str:
        """What can be read on the page."""
        return self.page.locator("body").inner_text()

    @contextmanager
    def leaves(self) -> Iterator[None]:
        """Wait until another page has come."""
        with self.page.expect_navigation():
            yield

    def scrolls_sideways(self) -> bool:
        """Whether the page is wider than its window. A table may scroll within its own frame."""
        wide: bool = self.page.evaluate(
            "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        )
        return wide

    def resize(self, width: int) -> None:
        self.page.set_viewport_size({"width": width, "height": 800})

    def darken(self) -> None:
        self.page.emulate_media(color_scheme="dark", reduced_motion="reduce")

    def obstacles(self, *rules: str) -> list[str]:
        """What axe-core finds to be serious or critical, in a line each; by all rules, or some."""
        script = node.axe_core()
        assert script is not None
        # Evaluated and not added as an element: a policy of the page must not hinder it.
        self.page.evaluate(script.read_text(encoding="utf-8"))
        options = {"resultTypes": ["violations"], **({"runOnly": list(rules)} if rules else {})}
        found = self.page.evaluate("options => axe.run(document, options)", options)
        return [
            f"{rule['id']} ({rule['impact']}): {json.dumps(element['html'][:300])}"
            f" {element['failureSummary']}"
            for rule in found["violations"]
            if rule["impact"] in SERIOUS
            for element in rule["nodes"]
        ]

    def _watch(self, request: Request) -> None:
        if urlsplit(request.url).netloc not in ("", urlsplit(self.url).netloc):
            self.faults.append(f"asks elsewhere: {request.url}")

    def _hear(self, message: Any) -> None:
        if message.type == "error":
            self.faults.append(f"{message.text} ({message.location})")
