"""The plan: the running dataflow as a graph, what each part of it does, and what can be changed."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from fastapi import Request
from fastapi.responses import Response
from nicegui import ui

from millrace.errors import MillraceError
from millrace.server.console.asked import Who
from millrace.server.console.frame import Console, Live, button, frame
from millrace.server.console.graphs import Drawn, Graph
from millrace.server.console.layout import Curve, Layout, lay_out
from millrace.server.console.parts import (
    Text,
    box,
    card,
    empty,
    properties,
    refusal,
    skeleton,
    text,
)
from millrace.server.console.settings import policy_choice, settings_card
from millrace.server.console.units import print_number, print_value

KINDS = {
    "stream": ("stream", "#2f80ed"),
    "index": ("index and families", "#8e5cd9"),
    "store": ("rows that are kept", "#c98a1b"),
    "operator": ("operator", "#1f9d8b"),
    "feed": ("answers", "#d0518a"),
    "sink": ("sink", "#6b7785"),
}
UNITS = {
    "rate": "rows/s",
    "lag": "s",
    "seconds": "s",
    "bytes": "B",
    "state_bytes": "B",
    "backlog_bytes": "B",
    "selectivity": "%",
}
WORDS = {
    "rate": "throughput",
    "lag": "watermark lag",
    "rows_in": "rows in",
    "rows_out": "rows out",
    "seconds": "time spent",
    "state_rows": "rows remembered",
    "state_bytes": "bytes remembered",
    "lag_epochs": "epochs behind",
    "backlog_rows": "rows that wait",
    "backlog_bytes": "bytes that wait",
    "readers": "shared by plans",
    "queries": "shared by queries",
    "retain": "history",
    "of": "answers of",
    "keeps": "answers kept",
    "kept_for": "answers kept for",
}
HIDDEN = ("query", "shown", "feed_kind", "operator", "text", "columns")


def add_plan(console: Console) -> None:
    """Add the page."""

    @ui.page("/plan")
    async def plan(request: Request) -> Response | None:
        who = await console.visitor(request)
        if who is None:
            return console.to_login(request)
        with frame(console, who, request, "/plan", "Plan") as live:
            with box("div", "mr-head"):
                text("h1", "Plan")
                text("p", "What runs, and who shares it. Edges are as wide as rows flow.")
            page = PlanPage(console, live, who)
        live.every(page.refresh)
        return None


class PlanPage:
    """The graph, and beside it what was chosen."""

    def __init__(self, console: Console, live: Live, who: Who) -> None:
        self._console, self._live, self._who = console, live, who
        self._nodes: dict[str, dict[str, Any]] = {}
        self._notes: dict[str, Text] = {}
        self._boxes: dict[str, ui.element] = {}
        self._graph: Graph | None = None
        self._chosen = ""
        with box("section", "mr-card", aria_label="dataflow").style("padding: 0"):
            self._canvas = box("div", "mr-plan", tabindex="0", aria_label="dataflow")
            with self._canvas:
                skeleton(320).style("margin: 24px")
            _legend()
        with box("div", "mr-grid2"):
            with box("div", "mr-col"):
                with box("div") as self._side, card("Properties"):
                    empty("ads_click", "Nothing chosen", "Choose a part of the plan above.")
                with box("section", "mr-card", aria_label="graph") as self._graph_card:
                    self._graph_title = text("h2", "", "mr-title")
                    self._drawn = Drawn(live, Graph("", "", "", ""), height=160)
                self._graph_card.style("display: none")
            settings_card(live, who)

    async def refresh(self) -> None:
        """Ask for the graph; draw it anew if it has other parts, else change its numbers."""
        graph = await self._live.asked.plan(self._who)
        known, self._nodes = set(self._nodes), {node["id"]: node for node in graph["nodes"]}
        if known != set(self._nodes) or not self._boxes:
            self._draw(graph)
        else:
            for ident, node in self._nodes.items():
                self._notes[ident].text = _note(node)
            self._edges.set_content(_svg(lay_out(graph)))
        if self._chosen in self._nodes:
            self._fill_properties()
            if self._graph is not None:
                await self._draw_graph()

    def _draw(self, graph: dict[str, Any]) -> None:
        layout = lay_out(graph)
        self._canvas.clear()
        self._notes, self._boxes = {}, {}
        with self._canvas:
            if not self._nodes:
                empty("schema", "Nothing runs", "Declare a stream and register a query.")
                return
            size = f"width: {layout.width}px; height: {layout.height}px"
            with box("div", "mr-canvas").style(size):
                self._edges = ui.html(_svg(layout), sanitize=False)
                for ident in sorted(layout.places, key=lambda each: layout.places[each]):
                    self._draw_node(ident, layout.places[ident])
        ui.run_javascript("millraceFit()")

    def _draw_node(self, ident: str, place: tuple[int, int]) -> None:
        node = self._nodes[ident]
        pressed = "true" if ident == self._chosen else "false"
        made = box("button", f"mr-node {node['kind']}", type="button", aria_pressed=pressed,
                   title=node["label"])  # fmt: skip
        with made.style(f"left: {place[0]}px; top: {place[1]}px"):
            text("b", node["label"])
            self._notes[ident] = text("span", _note(node))
        made.on("click", lambda: self._choose(ident))
        self._boxes[ident] = made

    async def _choose(self, ident: str) -> None:
        if self._chosen in self._boxes:
            self._boxes[self._chosen].props["aria-pressed"] = "false"
        self._chosen = ident
        self._boxes[ident].props["aria-pressed"] = "true"
        node = self._nodes[ident]
        self._side.clear()
        with self._side:
            self._tell(node)
        graph = self._graph = _graph(node)
        self._graph_card.style("display: none" if graph is None else "display: block")
        if graph is not None:
            self._graph_title.text = graph.title
            self._drawn.change(graph)
            await self._draw_graph()

    def _tell(self, node: dict[str, Any]) -> None:
        """Show what is known of a part."""
        with card(_title(node)):
            if node["kind"] in ("operator", "family", "feed"):
                text("pre", node["properties"].get("text") or node["label"], "mr-pre mr-code")
            self._values = box("div").style("margin-top: 12px")
            self._fill_properties()
            may = self._who.role == "admin" and not self._who.tenant
            if node["kind"] == "stream" and node["properties"]["retain"] and may:
                _retention(self._live, self._who, node)
            own = node["kind"] == "feed" and node["properties"]["feed_kind"] != "shared"
            if own and node["properties"]["policy"] and self._who.role != "reader":
                policy_choice(self._live, self._who, node["label"], node["properties"]["policy"])
            query = node["properties"].get("shown")
            if query and node["kind"] in ("operator", "feed"):
                self._link(query, node["properties"]["feed_kind"])

    def _link(self, feed: str, kind: str) -> None:
        """Lead to the query whose answers these are, or to the list of a template's queries."""
        words, href = f"Open query {feed}", self._console.link("/query", feed)
        if kind == "template":
            words, href = f"Queries of {feed}", self._console.link("/queries")
            href += f"?search={quote(f'{feed}#', safe='')}"
        if kind != "shared":
            text("a", words, href=href).style("display: block; margin-top: 12px")

    async def _draw_graph(self) -> None:
        try:
            await self._live.asked.watch(self._who)
            await self._drawn.refresh()
        except MillraceError as error:
            self._live.failed(error)

    def _fill_properties(self) -> None:
        node = self._nodes[self._chosen]
        self._values.clear()
        with self._values:
            properties(
                (WORDS.get(name, name), _printed(name, value))
                for name, value in node["properties"].items()
                if name not in HIDDEN and value is not None
            )


def _note(node: dict[str, Any]) -> str:
    """Return the line below the name of a node."""
    told = node["properties"]
    match node["kind"]:
        case "stream" | "feed":
            word = "rows" if node["kind"] == "stream" else "results"
            return f"{print_number(told['rate'])} {word}/s"
        case "index":
            families = _counted(told["families"], "family", "families")
            return f"{_counted(told['queries'], 'query', 'queries')}, {families}"
        case "family":
            return _counted(told["queries"], "query", "queries")
        case "store":
            shared = f", {told['readers']} plans" if told["readers"] > 1 else ""
            return f"{print_number(told['rows'])} rows, {print_value(told['bytes'], 'B')}{shared}"
        case "operator" | "table":
            return f"{print_number(told['rows_out'])} rows{_passing(told['selectivity'])}"
        case "sink":
            waits = told["backlog_rows"]
            return f"{told['state']}, {_counted(waits, 'row waits', 'rows wait')}"
    return _counted(told.get("queries", 0), "query", "queries") if "queries" in told else ""


def _passing(selectivity: float | None) -> str:
    """Say how many rows an operator tells of those that it reads."""
    if selectivity is None:
        return ""
    if selectivity > 1:
        return f", {print_number(selectivity)} per row in"
    return f", {print_value(selectivity, '%')} pass"


def _counted(number: int, one: str, many: str) -> str:
    return f"{print_number(number)} {one if number == 1 else many}"


def _title(node: dict[str, Any]) -> str:
    return str(node["properties"].get("operator") or f"{node['kind']} {node['label']}")


def _printed(name: str, value: object) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return print_value(value, UNITS.get(name, ""))
    return str(value)


def _graph(node: dict[str, Any]) -> Graph | None:
    """Return the graph of a node's main property, as a query over SysStream."""
    told, label = node["properties"], _literal(node["label"])
    match node["kind"]:
        case "stream":
            words, condition = ("Rows in", "rows/s"), f"name = {label} AND property = 'rate'"
        case "feed":
            name = _literal(told["query"])
            words, condition = ("Results", "results/s"), f"name = {name} AND property = 'rate'"
        case "operator":
            name, query = _literal(told["operator"]), _literal(told["query"])
            words = "Rows in and out", "rows"
            condition = f"query = {query} AND name = {name} AND property IN ('rows_in', 'rows_out')"
        case "store":
            name = _literal(node["id"].removeprefix("store:"))
            words, condition = ("Size", "B"), f"name = {name} AND property = 'bytes'"
        case "sink":
            condition = f"name = {label} AND property = 'backlog_rows'"
            words = "Rows that wait", "rows"
        case _:
            return None
    kind = "query" if node["kind"] == "feed" else node["kind"]
    asked = f"SELECT ts, property, fval FROM sysstream WHERE type = '{kind}' AND {condition}"
    return Graph(node["id"], *words, asked)


def _literal(words: str) -> str:
    return "'" + words.replace("'", "''") + "'"


def _svg(layout: Layout) -> str:
    """Draw the edges; only numbers get into this text."""
    drawn = "".join(_edge(each) for each in layout.curves)
    return f'<svg width="{layout.width}" height="{layout.height}" aria-hidden="true">{drawn}</svg>'


def _edge(curve: Curve) -> str:
    flows = "flows" if curve.rate > 0 else ""
    path = f'<path class="{flows}" d="{curve.path}" stroke-width="{curve.width:.1f}"/>'
    if curve.rate < 0.05:
        return path
    x, y = curve.middle
    words = f"{print_number(curve.rate)}/s"
    return f'{path}<text x="{x:.0f}" y="{y - 5:.0f}" text-anchor="middle">{words}</text>'


def _legend() -> None:
    with box("div", "mr-legend"):
        for words, colour in KINDS.values():
            with box("span"):
                box("i").style(f"background: {colour}")
                text("span", words)


def _retention(live: Live, who: Who, node: dict[str, Any]) -> None:
    """Let the history of a stream be kept for another while."""
    with box("div", "mr-row").style("margin-top: 12px"):
        field = ui.input("history", value=node["properties"]["retain"]).props("outlined dense")
        field.style("flex: 1")
        problem = box("div")

        async def change() -> None:
            problem.clear()
            try:
                await live.asked.retain(who, node["label"], field.value)
            except MillraceError as error:
                with problem:
                    refusal(error)
            else:
                ui.notify("In force with the next epoch.")

        button("Change", change)
