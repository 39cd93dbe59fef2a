"""One query: its text, how it runs and with whom it shares, and its results as they come."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
from fastapi import Request
from fastapi.responses import Response
from nicegui import ui

from millrace.errors import MillraceError
from millrace.server.console.asked import Who
from millrace.server.console.frame import Console, Live, button, frame
from millrace.server.console.graphs import Chart, Lines, lines_of
from millrace.server.console.parts import (
    Rows,
    attributed,
    box,
    card,
    chip,
    empty,
    moment,
    refusal,
    skeleton,
    text,
)
from millrace.server.console.settings import policy_choice
from millrace.server.console.units import print_number, print_value

SHOWN = 100
"""How many of the newest results are shown."""


def add_query(console: Console) -> None:
    """Add the page."""

    @ui.page("/query/{name:path}")
    async def query(request: Request, name: str) -> Response | None:
        who = await console.visitor(request)
        if who is None:
            return console.to_login(request)
        with frame(console, who, request, "/queries", name) as live:
            try:
                known = await live.asked.query(who, name)
            except MillraceError as error:
                with box("div", "mr-head"):
                    text("a", "Queries", "mr-crumb", href=console.link("/queries"))
                    text("h1", name)
                refusal(error)
                return None
            page = QueryPage(console, live, who, known)
        live.every(page.refresh)
        return None


class QueryPage:
    """The parts of the page that change."""

    def __init__(self, console: Console, live: Live, who: Who, query: dict[str, Any]) -> None:
        self._console, self._live, self._who = console, live, who
        self._name = str(query.get("name") or query["id"])
        self._told: pa.Table | None = None
        self._head()
        with box("div", "mr-split"):
            with box("div", "mr-col"):
                with card("Text") as head:
                    with head:
                        copy = text("a", "Edit as new", "mr-note", href=self._new(query))
                        copy.props["aria-label"] = "edit as a new query"
                    text("pre", query.get("text") or "", "mr-pre mr-code").style(
                        "white-space: pre-wrap"
                    )
                with card("As it is understood", "windows and streams written out"):
                    self._meant = box("div")
                    with self._meant:
                        skeleton(40)
                with card("Results", f"the newest {SHOWN}, as they come") as head:
                    with head:
                        self._form = ui.toggle(["Table", "Chart"], value="Table").props(
                            "dense no-caps unelevated"
                        )
                        attributed(self._form, {"aria_label": "form of results"})
                        self._form.on_value_change(self._draw)
                    self._places = self._forms()
                with card("How it runs") as head:
                    with head:
                        self._measured = ui.switch("with what it has done").props("dense")
                        self._measured.on_value_change(self._explain)
                    self._plan = box("div")
                    with self._plan:
                        skeleton(120)
            with card("Properties"):
                self._values = box("div")
                may = who.role != "reader" and query.get("kind") == "query"
                if may and query.get("policy"):
                    policy_choice(live, who, self._name, query["policy"])
        self._show(query)
        ui.timer(0.1, self._expand, once=True)
        ui.timer(0.1, self._explain, once=True)

    def _head(self) -> None:
        with box("div", "mr-head"):
            text("a", "Queries", "mr-crumb", href=self._console.link("/queries"))
            text("h1", self._name)
            self._state = chip("running")
            box("div", "mr-spring")
            in_plan = f"{self._console.link('/plan')}?find={quote(self._name, safe='')}"
            text("a", "Show in the plan", "q-btn mr-plain", href=in_plan)
            if self._who.role != "reader":
                self._pause = button("Pause", self._pause_or_resume)
                self._confirm = self._confirmation()
                button("Drop", self._confirm.open, "danger")

    def _forms(self) -> dict[str, ui.element]:
        """Make a place for each form of results, and for none."""
        with box("div").style("display: none") as in_table:
            self._rows = Rows(f"results of {self._name}")
        with box("div").style("display: none") as in_chart:
            self._chart = Chart("results", height=320)
        with box("div").style("display: none") as nothing:
            empty("inbox", "No results yet", "They appear here when rows satisfy the query.")
        return {"table": in_table, "chart": in_chart, "empty": nothing}

    def _confirmation(self) -> ui.dialog:
        with ui.dialog() as dialog, ui.card():
            text("h2", "Drop this query?", "mr-title")
            text(
                "p", f"{self._name} tells nothing more, and what it has answered is deleted."
            ).style("margin: 0")
            with box("div", "mr-row").style("justify-content: flex-end"):
                button("Keep it", dialog.close)
                button("Drop it", self._drop, "danger")
        return dialog

    def _new(self, query: dict[str, Any]) -> str:
        return f"{self._console.link('/queries/new')}?sql={quote(query.get('text') or '', safe='')}"

    async def refresh(self) -> None:
        """Ask for the state and for results."""
        query = await self._live.asked.query(self._who, self._name)
        self._show(query)
        self._told = await self._live.asked.results(self._who, self._name, SHOWN)
        self._draw()

    def _show(self, query: dict[str, Any]) -> None:
        self._query = query
        state = query["state"]
        self._state.text = state
        self._state.classes(
            replace=f"mr-chip {({'running': 'good', 'paused': 'warn'}).get(state, 'bad')}"
        )
        if self._who.role != "reader":
            self._pause.set_text("Pause" if state == "running" else "Resume")
        self._values.clear()
        with self._values, box("dl", "mr-props"):
            _pairs(query)

    def _draw(self) -> None:
        """Show results in the form that was chosen; what was scrolled to stays where it is."""
        told = self._told
        if told is None:
            return
        as_table = self._form.value == "Table"
        shown = "empty" if not told.num_rows else "table" if as_table else "chart"
        for name, place in self._places.items():
            place.style("display: block" if name == shown else "display: none")
        if shown == "table":
            newest_first = range(told.num_rows - 1, -1, -1)
            self._rows.show(told.take(pa.array(newest_first, pa.int64())))
        elif shown == "chart":
            self._chart.show(_lines(told), least=None)

    async def _expand(self) -> None:
        await self._fill(self._meant, self._live.asked.expanded(self._who, self._name), wrap=True)

    async def _explain(self) -> None:
        asked = self._live.asked.explain_query(self._who, self._name, analyze=self._measured.value)
        await self._fill(self._plan, asked)

    async def _fill(self, place: ui.element, asked: Awaitable[str], *, wrap: bool = False) -> None:
        """Show a text that is being asked for, or why it is not told."""
        try:
            words = await asked
        except MillraceError as error:
            place.clear()
            with place:
                refusal(error)
            return
        place.clear()
        with place:
            made = text("pre", words, "mr-pre mr-code")
            if wrap:
                made.style("white-space: pre-wrap")

    async def _pause_or_resume(self) -> None:
        act = (
            self._live.asked.pause if self._query["state"] == "running" else self._live.asked.resume
        )
        await self._try(act(self._who, self._name))
        await self.refresh()

    async def _drop(self) -> None:
        self._confirm.close()
        if await self._try(self._live.asked.drop(self._who, self._name)):
            self._console.go("/queries")

    async def _try(self, act: Any) -> bool:  # noqa: ANN401  a coroutine
        try:
            await act
        except MillraceError as error:
            self._live.failed(error)
            return False
        return True


def _pairs(query: dict[str, Any]) -> None:
    plain = (
        ("id", str(query["id"])),
        ("kind", query.get("kind")),
        ("answers go to", query.get("feed")),
        ("owner", query.get("owner") or "operator"),
        ("answers kept for", query.get("retain")),
        ("results", None if query.get("results") is None else print_number(query["results"])),
        (
            "share of the cost",
            None if query.get("cost") is None else print_value(query["cost"], "%"),
        ),
        (
            "state",
            None if query.get("state_bytes") is None else print_value(query["state_bytes"], "B"),
        ),
    )
    for name, value in plain:
        if value is not None:
            text("dt", name)
            text("dd", value)
    for name, key in (("registered", "created"), ("ends", "expires")):
        if query.get(key):
            text("dt", name)
            with box("dd"):
                moment(query[key])


def _lines(told: pa.Table) -> Lines:
    """Return the lines of results; of a relation, what came is drawn."""
    if "_change" in told.schema.names:
        told = told.filter(pc.equal(told.column("_change"), 1))
    return lines_of(told)
