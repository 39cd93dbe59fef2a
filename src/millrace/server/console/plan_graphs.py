"""Graphs of a part of the dataflow: what flows through it, what passes, time, and what it holds."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from millrace.server.console.frame import Console, Live
from millrace.server.console.graphs import Drawn, Graph
from millrace.server.console.parts import box, text

MOST = 4
"""No part has more graphs than this."""

_PROPERTIES: dict[str, tuple[tuple[str, str, tuple[str, ...]], ...]] = {
    "stream": (("Throughput", "rows/s", ("rate",)), ("Watermark lag", "s", ("lag",))),
    "index": (
        ("Throughput", "rows/s", ("rate",)),
        ("Results per row", "", ("selectivity",)),
        ("Time", "s", ("seconds",)),
        ("Size", "B", ("bytes",)),
    ),
    "family": (("Throughput", "results/s", ("rate",)), ("Results per row", "", ("selectivity",))),
    "operator": (
        ("Rows in and out", "rows", ("rows_in", "rows_out")),
        ("Selectivity", "%", ("selectivity",)),
        ("Time", "s", ("seconds",)),
        ("Remembered", "B", ("state_bytes",)),
    ),
    "table": (("Rows", "rows", ("rows",)),),
    "store": (("Size", "B", ("bytes",)), ("Rows", "rows", ("rows",))),
    "query": (("Throughput", "results/s", ("rate",)),),
    "sink": (("Rows that wait", "rows", ("backlog_rows",)), ("Epochs behind", "", ("lag",))),
}


def graphs_of(node: dict[str, Any]) -> tuple[Graph, ...]:
    """Return the graphs of a part, as queries over SysStream."""
    told, named = node["properties"], node["id"].partition(":")[2]
    kind = "query" if node["kind"] == "feed" else node["kind"]
    match kind:
        case "operator":
            condition = (
                f"query = {_literal(told['told_as'])} AND name = {_literal(told['operator'])}"
            )
        case "table":
            condition = f"name = {_literal(told['table'])}"
        case _:
            condition = f"name = {_literal(named)}"
    return tuple(
        Graph(f"{node['id']} {title}", title, unit, _asked(kind, condition, names))
        for title, unit, names in _PROPERTIES.get(kind, ())
        if names != ("state_bytes",) or told["state_rows"]
    )


def link_to(console: Console, graph: Graph) -> str:
    """Return where the query of a graph can be edited and kept."""
    asked = urlencode({"sql": graph.text, "title": graph.title, "unit": graph.unit})
    return f"{console.link('/sysstream')}?{asked}"


class GraphCards:
    """A card for each graph of the part that is chosen; those that are not needed are hidden."""

    def __init__(self, console: Console, live: Live) -> None:
        self._console = console
        self._cards = [_Card(live) for _ in range(MOST)]
        self._shown: list[_Card] = []

    def change(self, graphs: tuple[Graph, ...]) -> None:
        """Show other graphs."""
        for card, graph in zip(self._cards, graphs, strict=False):
            card.change(graph, link_to(self._console, graph))
        self._shown = self._cards[: len(graphs)]
        for card in self._cards:
            card.place.style("display: block" if card in self._shown else "display: none")

    async def refresh(self) -> None:
        """Ask for what is new."""
        for card in self._shown:
            await card.drawn.refresh()


class _Card:
    """The place of a graph; it stays on the page, and what it shows changes."""

    def __init__(self, live: Live) -> None:
        with box("section", "mr-card").style("display: none") as self.place:
            with box("div", "mr-cardhead"):
                self._title = text("h2", "", "mr-title")
                self._unit = text("span", "", "mr-note")
                self._link = text("a", "Open query", "mr-note", href="")
            self.drawn = Drawn(live, Graph("", "", "", ""), height=150)

    def change(self, graph: Graph, link: str) -> None:
        self.place.props["aria-label"] = f"graph of {graph.title}"
        self._title.text = graph.title
        self._unit.text = "" if graph.unit in ("B", "s", "", "%") else graph.unit
        self._link.props["href"] = link
        self.drawn.change(graph)


def _asked(kind: str, condition: str, names: tuple[str, ...]) -> str:
    columns, properties = "ts, fval", f"property = {_literal(names[0])}"
    if len(names) > 1:
        columns = "ts, property, fval"
        properties = f"property IN ({', '.join(map(_literal, names))})"
    return (
        f"SELECT {columns}\nFROM sysstream\nWHERE type = '{kind}' AND {condition}\n"
        f"  AND {properties}"
    )


def _literal(words: str) -> str:
    return "'" + words.replace("'", "''") + "'"
