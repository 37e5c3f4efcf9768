"""Takes the pictures of docs/admin.md from a demo that has run for a while.

``python -m testproject.demo --serve``, and some minutes later, with what it printed:
``python -m tests.browser.pictures http://127.0.0.1:PORT USER PASSWORD``, with pngquant installed.
"""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import sync_playwright

from tests import node
from tests.browser.visitor import ARGUMENTS

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROOT = Path(__file__).resolve().parents[2]
ADMIN = "/admin/graphile_worker/"

Look = Callable[["Page"], None]


def at(path: str) -> Look:
    def look(page: Page) -> None:
        page.goto(ADMIN + path)

    return look


def first_of(path: str, link: str) -> Look:
    """Click the first link of a list that a selector finds."""

    def look(page: Page) -> None:
        page.goto(ADMIN + path)
        with page.expect_navigation():
            page.locator(link).first.click()

    return look


# The file's name, whether it is dark, the window's width, and what is on it.
PICTURES: list[tuple[str, bool, int, Look]] = [
    ("overview", False, 1280, at("overview/")),
    ("overview-narrow", True, 360, at("overview/")),
    ("jobs", False, 1280, at("job/")),
    ("job", False, 1280, first_of("job/?state=failed", "#result_list th a")),
    ("conflicts", False, 1280, at("keyconflict/")),
    ("conflicts-of-a-key", True, 1280, first_of("keyconflict/", "a[href*='key=']")),
    ("locked-rows", True, 1280, at("lockedjob/")),
    ("unlock", False, 1280, first_of("lockedjob/", "a[href*='unlock']")),
    ("workers", False, 1280, at("worker/")),
    ("jobs-narrow", False, 360, at("job/")),
]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.browser.pictures")
    for name in ("url", "user", "password"):
        parser.add_argument(name)
    parser.add_argument("--folder", type=Path, default=ROOT / "docs" / "pictures")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=str(node.chromium()), args=list(ARGUMENTS)
        )
        context = browser.new_context(base_url=options.url)
        context.set_default_timeout(15_000)
        page = context.new_page()
        page.goto(ADMIN)
        page.get_by_label("Username").fill(options.user)
        page.get_by_label("Password").fill(options.password)
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url(f"**{ADMIN}")
        for name, dark, width, look in PICTURES:
            page.set_viewport_size({"width": width, "height": 800 if width > 500 else 720})
            page.emulate_media(color_scheme="dark" if dark else "light")
            look(page)
            picture = options.folder / f"{name}.png"
            page.screenshot(path=picture)
            # A palette: a third of the size, and nothing to be seen of it.
            subprocess.run(["pngquant", "--force", "--output", picture, picture], check=True)
        browser.close()


if __name__ == "__main__":
    main()
