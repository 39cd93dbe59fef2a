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
from millrace.server.console.layout import Curve, Layout, lay_out
from millrace.server.console.parts import (
    Text,
    attributed,
    box,
    card,
    empty,
    properties,
    refusal,
    skeleton,
    text,
)
from millrace.server.console.plan_graphs import GraphCards, graphs_of
from millrace.server.console.plan_words import note_of, pairs_of, title_of
from millrace.server.console.settings import policy_choice, settings_card
from millrace.server.console.units import print_number

KINDS = {
    "stream": ("stream", "#2f80ed"),
    "index": ("index and families", "#8e5cd9"),
    "store": ("rows that are kept", "#c98a1b"),
    "operator": ("operator", "#1f9d8b"),
    "feed": ("answers", "#d0518a"),
    "sink": ("sink", "#6b7785"),
}


def add_plan(console: Console) -> None:
    """Add the page."""

    @ui.page("/plan")
    async def plan(request: Request, find: str = "") -> Response | None:
        who = await console.visitor(request)
        if who is None:
            return console.to_login(request)
        with frame(console, who, request, "/plan", "Plan") as live:
            with box("div", "mr-head"):
                text("h1", "Plan")
                text("p", "What runs, and who shares it. Edges are as wide as rows flow.")
                box("div", "mr-spring")
                search = ui.input(placeholder="Find a query or a family", value=find)
                search.props("outlined dense clearable debounce=250").classes("mr-search")
                attributed(search, {"aria_label": "find a query or a family", "type": "search"})
                search.style("width: 320px; max-width: 100%")
            page = PlanPage(console, live, who, find)
            search.on_value_change(lambda event: page.look_for(event.value or ""))
        live.every(page.refresh)
        return None


class PlanPage:
    """The dataflow, and below it what was chosen of it, with its graphs."""

    def __init__(self, console: Console, live: Live, who: Who, find: str) -> None:
        self._console, self._live, self._who, self._find = console, live, who, find.strip()
        self._nodes: dict[str, dict[str, Any]] = {}
        self._notes: dict[str, Text] = {}
        self._boxes: dict[str, ui.element] = {}
        self._chosen = ""
        with box("section", "mr-card", aria_label="dataflow").style("padding: 0"):
            self._canvas = box("div", "mr-plan", tabindex="0", aria_label="dataflow")
            with self._canvas:
                skeleton(320).style("margin: 24px")
            _legend()
        with box("div", "mr-split mr-chosen") as self._below:
            with box("div") as self._side, card("Properties"):
                empty("ads_click", "Nothing chosen", "Choose a part of the plan above.")
            with box("div", "mr-grid2"):
                self._graphs = GraphCards(console, live)
        settings_card(live, who)

    async def look_for(self, find: str) -> None:
        """Draw what has a word in it, or everything."""
        self._find = find.strip()
        try:
            await self.refresh()
        except MillraceError as error:
            self._live.failed(error)

    async def refresh(self) -> None:
        """Ask for the graph; draw it anew if it has other parts, else change its numbers."""
        find = self._find
        graph = await self._live.asked.plan(self._who, find)
        if find != self._find:
            return  # meanwhile something else is looked for
        known, self._nodes = set(self._nodes), {node["id"]: node for node in graph["nodes"]}
        if known != set(self._nodes) or not self._boxes:
            self._draw(graph)
        else:
            for ident, node in self._nodes.items():
                self._notes[ident].text = note_of(node)
            self._edges.set_content(_svg(lay_out(graph)))
        if self._chosen in self._nodes:
            self._fill_properties()
            await self._refresh_graphs()
        elif self._nodes:
            await self._choose(_first(graph))

    def _draw(self, graph: dict[str, Any]) -> None:
        layout = lay_out(graph)
        self._below.style("display: grid" if self._nodes else "display: none")
        self._canvas.clear()
        self._notes, self._boxes = {}, {}
        with self._canvas:
            if not self._nodes and self._find:
                empty("search_off", "Nothing found", "No query has this in its name or its text.")
                return
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
            self._notes[ident] = text("span", note_of(node))
        made.on("click", lambda: self._choose(ident))
        self._boxes[ident] = made

    async def _choose(self, ident: str) -> None:
        if ident == self._chosen:
            return  # what is being written beside it stays
        if self._chosen in self._boxes:
            self._boxes[self._chosen].props["aria-pressed"] = "false"
        self._chosen = ident
        self._boxes[ident].props["aria-pressed"] = "true"
        node = self._nodes[ident]
        self._side.clear()
        with self._side:
            self._tell(node)
        self._graphs.change(graphs_of(node))
        await self._refresh_graphs()

    def _tell(self, node: dict[str, Any]) -> None:
        """Show what is known of a part."""
        with card(title_of(node)):
            if node["kind"] in ("operator", "family", "feed"):
                written = node["properties"].get("text") or node["label"]
                text("pre", written, "mr-pre mr-code").style("white-space: pre-wrap")
            self._values = box("div").style("margin-top: 12px")
            self._fill_properties()
            may = self._who.role == "admin" and not self._who.tenant
            if node["kind"] == "stream" and may:
                _retention(self._live, self._who, node)
            own = node["kind"] == "feed" and node["properties"]["feed_kind"] != "shared"
            if own and node["properties"]["policy"] and self._who.role != "reader":
                policy_choice(self._live, self._who, node["label"], node["properties"]["policy"])
            query = node["properties"].get("shown")
            if query and node["kind"] in ("operator", "family", "feed"):
                self._link(query, node["properties"]["feed_kind"])
            if node["kind"] == "more":
                text("p", "The largest are drawn. Find others by a name or a text, above.")

    def _link(self, feed: str, kind: str) -> None:
        """Lead to the query whose answers these are, or to the list of a template's queries."""
        words, href = f"Open query {feed}", self._console.link("/query", feed)
        if kind == "template":
            words, href = f"Queries of {feed}", self._console.link("/queries")
            href += f"?search={quote(f'{feed}#', safe='')}"
        if kind != "shared":
            text("a", words, href=href).style("display: block; margin-top: 12px")

    async def _refresh_graphs(self) -> None:
        try:
            await self._live.asked.watch(self._who)
            await self._graphs.refresh()
        except MillraceError as error:
            self._live.failed(error)

    def _fill_properties(self) -> None:
        self._values.clear()
        with self._values:
            properties(pairs_of(self._nodes[self._chosen]))


def _first(graph: dict[str, Any]) -> str:
    """Return the part that is chosen at first: the stream of which most comes."""
    rates: dict[str, float] = {
        node["id"]: node["properties"]["rate"]
        for node in graph["nodes"]
        if node["kind"] == "stream"
    }
    default = str(graph["nodes"][0]["id"])
    return max(rates, key=lambda ident: rates[ident], default=default)


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
    """Let the history of a stream be kept for another while, or from now on."""
    with box("div", "mr-row").style("margin-top: 12px"):
        kept = node["properties"]["retain"]
        field = ui.input("history", value=kept, placeholder="not kept")
        field.props("outlined dense stack-label").style("flex: 1")

        async def change() -> None:
            problem.clear()
            try:
                await live.asked.retain(who, node["label"], field.value or "")
            except MillraceError as error:
                with problem:
                    refusal(error)
            else:
                ui.notify("In force with the next epoch.")

        button("Change", change)
    problem = box("div")
