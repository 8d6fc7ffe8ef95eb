"""Pages in a real, headless Chromium: where it is, and what a page did that it should not."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NAMES = ("chromium", "chromium-browser", "google-chrome")
LOCAL = ("file:", "data:", "blob:")


def chromium() -> str | None:
    """The browser's path: EXCORA_CHROMIUM, or what is installed."""
    found = [os.environ.get("EXCORA_CHROMIUM"), *map(shutil.which, NAMES)]
    return next((path for path in found if path), None)


@contextmanager
def open_browser() -> Iterator[Browser]:
    """A browser; without one the test is skipped, or fails where EXCORA_REQUIRE_BROWSER is set."""
    path = chromium()
    if path is None:
        reason = f"no browser: install one of {', '.join(NAMES)}, or name it in EXCORA_CHROMIUM"
        if os.environ.get("EXCORA_REQUIRE_BROWSER"):
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


def watch(page: Page) -> list[str]:
    """What the page did wrong from now on: errors, dialogs, and requests that leave the machine."""
    wrong: list[str] = []

    def dialog(box: object) -> None:
        wrong.append(f"dialog: {box.message}")  # type: ignore[attr-defined]
        box.dismiss()  # type: ignore[attr-defined]

    page.on("console", lambda m: wrong.append(f"{m.type}: {m.text}") if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(f"page error: {error}"))
    page.on("request", lambda r: None if r.url.startswith(LOCAL) else wrong.append(f"request: {r.url}"))
    page.on("dialog", dialog)
    return wrong
