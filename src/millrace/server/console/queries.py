"""The queries: search and paging, which the server does, among however many there are."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from fastapi.responses import Response
from nicegui import ui

from millrace.errors import MillraceError
from millrace.server.console.asked import Who
from millrace.server.console.frame import Console, Live, button, frame
from millrace.server.console.parts import (
    UNKNOWN,
    attributed,
    box,
    chip,
    empty,
    moment,
    skeleton,
    text,
)
from millrace.server.console.units import print_number

PAGE = 50
STATES = {"": "every state", "running": "running", "paused": "paused", "suspended": "suspended"}
TYPING_SECONDS = 0.25
COLUMNS = (
    ("name", ""),
    ("state", ""),
    ("asks", ""),
    ("results", "num"),
    ("owner", ""),
    ("registered", ""),
)


def add_queries(console: Console) -> None:
    """Add the page."""

    @ui.page("/queries")
    async def queries(request: Request, search: str = "", focus: str = "") -> Response | None:
        who = await console.visitor(request)
        if who is None:
            return console.to_login(request)
        with frame(console, who, request, "/queries", "Queries") as live:
            with box("div", "mr-head"):
                text("h1", "Queries")
                box("div", "mr-spring")
                if who.role != "reader":
                    text("a", "New query", "q-btn mr-primary", href=console.link("/queries/new"))
            QueriesPage(console, live, who, search, focus=bool(focus))
        return None


class QueriesPage:
    """A search, a page of what it found, and the ways to the next page and back."""

    def __init__(self, console: Console, live: Live, who: Who, search: str, *, focus: bool) -> None:
        self._console, self._live, self._who = console, live, who
        self._cursors = [""]  # of the pages up to this one
        self._next: str | None = None
        with box("section", "mr-card", aria_label="queries"):
            with box("div", "mr-row").style("margin-bottom: 16px"):
                self._search = ui.input(placeholder="Search names and texts", value=search)
                self._search.props("outlined dense clearable debounce=250").classes("mr-search")
                attributed(self._search, {"aria_label": "search names and texts", "type": "search"})
                self._search.style("flex: 1; max-width: 480px")
                if focus:
                    self._search.props("autofocus")
                self._state = ui.select(STATES, value="").props("outlined dense")
                attributed(self._state, {"aria_label": "state"})
                box("div", "mr-spring")
                self._total = text("span", "", "mr-note", role="status")
            self._list = box("div")
            with self._list:
                skeleton(240)
            with box("div", "mr-row").style("margin-top: 12px; justify-content: flex-end"):
                self._back = button("Previous", self._previous_page)
                self._on = button("Next", self._next_page)
        self._search.on_value_change(self._begin)
        self._state.on_value_change(self._begin)
        ui.timer(0.05, self._show, once=True)
        live.every(self._count, 10.0)

    async def _begin(self) -> None:
        self._cursors = [""]
        await self._show()

    async def _next_page(self) -> None:
        if self._next:
            self._cursors.append(self._next)
            await self._show()

    async def _previous_page(self) -> None:
        if len(self._cursors) > 1:
            self._cursors.pop()
            await self._show()

    async def _count(self) -> None:
        found = await self._ask(limit=1, after="")
        self._tell(found["total"])

    async def _ask(self, *, limit: int, after: str) -> dict[str, Any]:
        search, state = (self._search.value or "").strip(), self._state.value or ""
        return await self._live.asked.queries(
            self._who, search=search, state=state, after=after, limit=limit
        )

    async def _show(self) -> None:
        try:
            found = await self._ask(limit=PAGE, after=self._cursors[-1])
        except MillraceError as error:
            self._live.failed(error)
            return
        self._next = found.get("next")
        self._tell(found["total"])
        self._back.set_enabled(len(self._cursors) > 1)
        self._on.set_enabled(bool(self._next))
        self._list.clear()
        with self._list:
            if found["queries"]:
                self._table(found["queries"])
            elif self._search.value or self._state.value:
                empty("search_off", "Nothing found", "No query has this in its name or its text.")
            else:
                empty(
                    "manage_search",
                    "No queries yet",
                    "Register one: press n, or use the button above.",
                )

    def _tell(self, total: int | None) -> None:
        first = (len(self._cursors) - 1) * PAGE
        if total is None:
            self._total.text = ""
        elif total <= PAGE:
            self._total.text = f"{print_number(total)} {'query' if total == 1 else 'queries'}"
        else:
            self._total.text = f"{first + 1:,} to {min(first + PAGE, total):,} of {total:,}"

    def _table(self, queries: list[dict[str, Any]]) -> None:
        with (
            box("div", "mr-scroll").style("max-height: none"),
            box("table", "mr-table", aria_label="queries"),
        ):
            with box("thead"), box("tr"):
                for name, kind in COLUMNS:
                    text("th", name, kind, scope="col")
            with box("tbody"):
                for each in queries:
                    self._row(each)

    def _row(self, query: dict[str, Any]) -> None:
        with box("tr"):
            with box("td"):
                name = str(query.get("name") or query["id"])
                text("a", name, href=self._console.link("/query", name))
            with box("td"):
                chip(query["state"])
            text(
                "td",
                " ".join((query.get("text") or "").split()),
                "mr-mono",
                title=query.get("text"),
            )
            results = query.get("results")
            text("td", UNKNOWN if results is None else print_number(results), "num")
            text("td", query.get("owner") or "operator")
            with box("td"):
                moment(query.get("created"))
