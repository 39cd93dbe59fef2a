"""SysStream: every graph of the console is a query, which can be opened, edited and kept."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pyarrow as pa
from fastapi import Request
from fastapi.responses import Response
from nicegui import ui

from millrace.engine.sysstream import COLUMNS, NAME
from millrace.errors import MillraceError
from millrace.schema import type_name
from millrace.server.console.asked import Who
from millrace.server.console.editor import Editor
from millrace.server.console.frame import Console, Live, button, frame
from millrace.server.console.graphs import GRAPHS, Drawn, Graph
from millrace.server.console.parts import Rows, attributed, box, card, properties, text

MOST_ROWS = 200
GRAPH_SECONDS = 5.0


def add_sysstream(console: Console) -> None:
    """Add the page."""

    @ui.page("/sysstream")
    async def sysstream(
        request: Request,
        graph: str = "rows",
        sql: str = "",
        title: str = "Graph",
        unit: str = "",
    ) -> Response | None:
        who = await console.visitor(request)
        if who is None:
            return console.to_login(request)
        with frame(console, who, request, "/sysstream", "SysStream") as live:
            with box("div", "mr-head"):
                text("h1", "SysStream")
                text(
                    "p",
                    "What the engine tells of itself, as a stream. Every graph is a query over it.",
                )
            chosen = GRAPHS.get(graph, GRAPHS["rows"])
            if sql:
                chosen = Graph("", title, unit, sql)
            page = SysStreamPage(console, live, who, chosen)
        live.every(page.refresh, GRAPH_SECONDS)
        return None


class SysStreamPage:
    """The list of graphs, the editor, and what its query answers."""

    def __init__(self, console: Console, live: Live, who: Who, graph: Graph) -> None:
        self._console, self._live, self._who, self._graph = console, live, who, graph
        with box("div", "mr-split mr-left"):
            with box("div", "mr-col"):
                with card("Graphs"), box("nav", "mr-list", aria_label="graphs"):
                    for each in GRAPHS.values():
                        current = "true" if each.key == graph.key else None
                        place = f"{console.link('/sysstream')}?graph={each.key}"
                        text("a", each.title, href=place, aria_current=current)
                with card("Kept"):
                    self._kept = box("nav", "mr-list", aria_label="kept graphs")
                with card("Columns"):
                    properties((each.name, type_name(each.type)) for each in COLUMNS)
            with box("div", "mr-col"):
                with card(graph.title, "over the last hour") as head:
                    with head:
                        self._form = ui.toggle(["Graph", "Table"], value="Graph").props(
                            "dense no-caps unelevated"
                        )
                        attributed(self._form, {"aria_label": "form of the answer"})
                        self._form.on_value_change(self.run)
                    self._drawn = Drawn(live, graph, height=300)
                    with box("div").style("display: none") as self._table:
                        self._rows = Rows("answer")
                with card("Query", "Ctrl Enter runs it"):
                    self._editor = Editor(graph.text, check=self._check, run=self.run)
                    with box("div", "mr-row").style("margin-top: 16px"):
                        button("Run", self.run, "primary")
                        if who.role != "reader":
                            self._name = ui.input("Name", placeholder="of the standing query")
                            self._name.props("outlined dense stack-label")
                            button("Keep as a standing query", self._keep)
        self._running = graph.text

    async def refresh(self) -> None:
        """Ask for what is new."""
        await self._live.asked.watch(self._who)
        await self._list()
        await self._show()

    async def run(self) -> None:
        """Run what is written."""
        written = self._editor.value
        if written != self._running:
            self._running = written
            self._drawn.change(Graph("", self._graph.title, "", written))
        try:
            await self._show()
        except MillraceError as error:
            self._editor.refuse(error)
        else:
            self._editor.accept()

    async def _check(self, written: str) -> object:
        return await self._live.asked.explain(self._who, written)

    async def _show(self) -> None:
        graph = self._form.value == "Graph"
        self._drawn.chart.hide(hidden=not graph)
        self._table.style("display: none" if graph else "display: block")
        if graph:
            await self._drawn.refresh()
            return
        answer = await self._live.asked.sql(self._who, self._running)
        newest = answer.slice(max(answer.num_rows - MOST_ROWS, 0))
        self._rows.show(newest.take(pa.array(range(newest.num_rows - 1, -1, -1), pa.int64())))

    async def _keep(self) -> None:
        name = self._name.value.strip() or None
        try:
            made = await self._live.asked.register(self._who, self._editor.value, name=name)
        except MillraceError as error:
            self._editor.refuse(error)
            return
        self._console.go("/query", str(made.get("name") or made["id"]))

    async def _list(self) -> None:
        """List the standing queries that read the stream."""
        found = await self._live.asked.queries(
            self._who, search=f"FROM {NAME}", state="", after="", limit=20
        )
        self._kept.clear()
        with self._kept:
            if not found["queries"]:
                text("span", "None yet: a graph that is kept is a standing query.", "mr-note")
            for each in found["queries"]:
                self._kept_link(each)

    def _kept_link(self, query: dict[str, Any]) -> None:
        asked = quote(query["text"], safe="")
        with box("a", href=f"{self._console.link('/sysstream')}?sql={asked}"):
            text("span", str(query.get("name") or query["id"]))
            text("small", " ".join(query["text"].split()))
