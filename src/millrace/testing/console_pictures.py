"""Pictures of every page of the console, light and dark, for the documentation.

python -m millrace.testing.console_pictures docs/images
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
from playwright.sync_api import Page, sync_playwright

from millrace.testing.browsing import Market, launched, served

WRITTEN = """\
SELECT symbol, count(*) AS n, avg(prise) AS mean
FROM trades [RANGE 1 MINUTE SLIDE 10 SECONDS]
WHERE size > 100
GROUP BY symbol"""
WARM_SECONDS = 45.0
"""Graphs are worth a look when something has happened."""
SIZE = {"width": 1360, "height": 900}


def main(folder: Path) -> None:
    """Take all pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as scratch,
        served(Path(scratch) / "root") as address,
        Market(address, rows=400),
        sync_playwright() as playwright,
    ):
        _add_alerts(address)
        browser = launched(playwright)
        _watch(browser, address)
        for theme in ("light", "dark"):
            context = browser.new_context(viewport=SIZE, color_scheme=theme)
            page = context.new_page()
            for name, take in PICTURES.items():
                take(page, address)
                page.wait_for_timeout(1_500)
                whole = name not in ("queries", "costs")  # fifty rows look like twenty
                page.screenshot(path=folder / f"console-{name}-{theme}.png", full_page=whole)
                print(f"console-{name}-{theme}.png")
            context.close()
        browser.close()


def _add_alerts(address: str) -> None:
    rows = [{"sym": f"S{each % 200:03}", "low": float(each % 97)} for each in range(20_000)]
    answer = httpx.post(f"{address}/v1/templates/alerts/rows", json=rows, timeout=120)
    answer.raise_for_status()


def _watch(browser: Any, address: str) -> None:  # noqa: ANN401  Playwright's own type
    """Let the engine tell of itself for a while."""
    context = browser.new_context(viewport=SIZE)
    context.new_page().goto(f"{address}/console/")
    time.sleep(WARM_SECONDS)
    context.close()


def _overview(page: Page, address: str) -> None:
    page.goto(f"{address}/console/")
    page.wait_for_timeout(6_000)


def _plan(page: Page, address: str) -> None:
    page.goto(f"{address}/console/plan")
    page.locator(".mr-node.operator", has_text="aggregate").first.click()
    page.wait_for_timeout(6_000)


def _queries(page: Page, address: str) -> None:
    page.goto(f"{address}/console/queries")
    page.locator("tbody tr").first.wait_for()


def _new_query(page: Page, address: str) -> None:
    page.goto(f"{address}/console/queries/new?sql={quote(WRITTEN)}")
    page.get_by_role("alert").wait_for()


def _query(page: Page, address: str) -> None:
    page.goto(f"{address}/console/query/per_symbol")
    page.locator("tbody tr").first.wait_for()


def _costs(page: Page, address: str) -> None:
    page.goto(f"{address}/console/costs")
    page.locator("tbody tr").first.wait_for()


def _sysstream(page: Page, address: str) -> None:
    page.goto(f"{address}/console/sysstream?graph=operators")
    page.wait_for_timeout(6_000)


PICTURES = {
    "overview": _overview,
    "plan": _plan,
    "queries": _queries,
    "new-query": _new_query,
    "query": _query,
    "costs": _costs,
    "sysstream": _sysstream,
}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
