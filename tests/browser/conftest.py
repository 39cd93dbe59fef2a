"""A browser, a server with rows that come, and pages that may neither fail nor look elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from millrace.testing.browsing import Market, launched, served

PATIENCE_MS = 30_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The Chromium of the machine."""
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        found = launched(playwright)
        yield found
        found.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server on which rows come all the time."""
    with served(tmp_path_factory.mktemp("console") / "root") as found, Market(found):
        yield found


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A visitor."""
    made = browser.new_context(viewport={"width": 1360, "height": 900}, color_scheme="light")
    made.set_default_timeout(PATIENCE_MS)
    yield made
    made.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A page on which no script fails, no dialog opens, and nothing is loaded from elsewhere."""
    made = context.new_page()
    problems: list[str] = []
    made.on("pageerror", lambda error: problems.append(f"error: {error}"))
    made.on("dialog", lambda dialog: problems.append(f"dialog: {dialog.message}"))
    made.on("request", lambda request: problems.extend(_elsewhere(request.url)))
    made.on(
        "console",
        lambda said: problems.append(f"said: {said.text}") if said.type == "error" else None,
    )
    yield made
    assert problems == []


def _elsewhere(url: str) -> list[str]:
    parts = urlsplit(url)
    here = parts.scheme in ("data", "blob") or parts.hostname == "127.0.0.1"
    return [] if here else [f"request: {url}"]
