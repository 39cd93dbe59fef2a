"""Which query eats the machine: shares of the engine's time, state and results, the most first."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from fastapi.responses import Response
from nicegui import ui

from millrace.errors import MillraceError
from millrace.server.console.asked import Who
from millrace.server.console.frame import Console, Live, button, frame
from millrace.server.console.parts import box, chip, empty, skeleton, text
from millrace.server.console.units import print_number, print_value

PAGE = 25
MOST = 1_000
"""Further than this nobody looks: it is about those that take most."""
REFRESH_SECONDS = 5.0
SORTED = {"cost": "share of time", "state": "size", "results": "results"}


def add_costs(console: Console) -> None:
    """Add the page."""

    @ui.page("/costs")
    async def costs(request: Request, by: str = "cost") -> Response | None:
        who = await console.visitor(request)
        if who is None:
            return console.to_login(request)
        with frame(console, who, request, "/costs", "Costs") as live:
            with box("div", "mr-head"):
                text("h1", "Costs")
                text("p", "Which queries take most. Where work is shared, each has its part of it.")
            page = CostsPage(console, live, who, by if by in SORTED else "cost")
        live.every(page.refresh, REFRESH_SECONDS)
        return None


class CostsPage:
    """A page of queries, and what they are sorted by."""

    def __init__(self, console: Console, live: Live, who: Who, by: str) -> None:
        self._console, self._live, self._who, self._by = console, live, who, by
        self._first = 0
        with box("section", "mr-card", aria_label="costs"):
            self._list = box("div")
            with self._list:
                skeleton(240)
            with box("div", "mr-row").style("margin-top: 12px; justify-content: flex-end"):
                self._total = text("span", "", "mr-note", role="status")
                self._back = button("Previous", lambda: self._turn(-PAGE))
                self._on = button("Next", lambda: self._turn(PAGE))

    async def refresh(self) -> None:
        """Ask for the queries that take most, one more than is shown."""
        by, first = self._by, self._first
        found = await self._live.asked.top(self._who, by, min(first + PAGE, MOST) + 1)
        if (by, first) != (self._by, self._first):
            return  # meanwhile another page is wanted
        shown, more = found[first : first + PAGE], len(found) > first + PAGE
        self._back.set_enabled(first > 0)
        self._on.set_enabled(more and first + PAGE < MOST)
        self._total.text = f"{first + 1:,} to {first + len(shown):,}" if shown else ""
        self._list.clear()
        with self._list:
            if shown:
                self._table(shown)
            else:
                empty("speed", "No queries", "What stands takes its part of the machine, here.")

    async def _sort(self, by: str) -> None:
        self._by, self._first = by, 0
        await self._again()

    async def _turn(self, rows: int) -> None:
        self._first = max(self._first + rows, 0)
        await self._again()

    async def _again(self) -> None:
        try:
            await self.refresh()
        except MillraceError as error:
            self._live.failed(error)

    def _table(self, queries: list[dict[str, Any]]) -> None:
        with (
            box("div", "mr-scroll").style("max-height: none"),
            box("table", "mr-table", aria_label="costs"),
        ):
            with box("thead"), box("tr"):
                text("th", "name", scope="col")
                text("th", "state", scope="col")
                for key, words in SORTED.items():
                    self._head(key, words)
                text("th", "asks", scope="col")
            with box("tbody"):
                for each in queries:
                    self._row(each)

    def _head(self, key: str, words: str) -> None:
        mine = key == self._by
        with box("th", "num", scope="col", aria_sort="descending" if mine else None):
            made = text("button", words, "mr-sort", type="button", title=f"sort by {words}")
            made.on("click", lambda: self._sort(key))

    def _row(self, query: dict[str, Any]) -> None:
        name = str(query.get("name") or query["id"])
        with box("tr"):
            with box("td"):
                text("a", name, href=self._console.link("/query", name))
            with box("td"):
                chip(query["state"])
            with box("td", "num mr-share"):
                share = min(query["cost"], 1.0)
                box("i", aria_hidden="true").style(f"width: {share * 100:.1f}%")
                text("span", print_value(query["cost"], "%"))
            text("td", print_value(query["state_bytes"], "B"), "num")
            text("td", print_number(query["results"]), "num")
            asks = query.get("text") or ""
            text("td", " ".join(asks.split()), "mr-mono", title=asks)
