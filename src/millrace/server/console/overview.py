"""The overview: what flows now, and the graphs of the last hour."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from fastapi.responses import Response
from nicegui import ui

from millrace.server.console.frame import Console, Live, frame
from millrace.server.console.graphs import GRAPHS, OVERVIEW, Drawn
from millrace.server.console.parts import UNKNOWN, Tile, box, card, chip, empty, text
from millrace.server.console.units import print_number, print_span, print_value

GRAPH_SECONDS = 5.0
COLUMNS = (
    ("stream", ""),
    ("state", ""),
    ("rows/s", "num"),
    ("lag", "num"),
    ("delay", "num"),
    ("history", "num"),
    ("columns", ""),
)


def add_overview(console: Console) -> None:
    """Add the page."""

    @ui.page("/")
    async def overview(request: Request) -> Response | None:
        who = await console.visitor(request)
        if who is None:
            return console.to_login(request)
        with frame(console, who, request, "/", "Overview") as live:
            with box("div", "mr-head"):
                text("h1", "Overview")
            tiles = _tiles()
            graphs = _graphs(console, live)
            streams = _streams()

        async def refresh() -> None:
            stats = await live.asked.stats(who)
            _show(tiles, stats)
            _fill(streams, await live.asked.streams(who), stats)

        async def draw() -> None:
            await live.asked.watch(who)
            for graph in graphs:
                await graph.refresh()

        live.every(refresh)
        live.every(draw, GRAPH_SECONDS)
        return None


def _tiles() -> dict[str, Tile]:
    with box("div", "mr-tiles"):
        return {
            "rows": Tile("Rows in"),
            "results": Tile("Results"),
            "epoch": Tile("Epoch, median"),
            "lag": Tile("Watermark lag"),
            "queries": Tile("Standing queries"),
            "state": Tile("State"),
            "aside": Tile("Set aside"),
        }


def _graphs(console: Console, live: Live) -> list[Drawn]:
    drawn = []
    with box("div", "mr-grid2"):
        for key in OVERVIEW:
            graph = GRAPHS[key]
            spelt = "" if graph.unit in ("B", "s", "") else f"{graph.unit}, "
            note = f"{spelt}last hour"
            with card(graph.title, note) as head:
                with head:
                    text(
                        "a",
                        "Open query",
                        "mr-note",
                        href=f"{console.link('/sysstream')}?graph={key}",
                    )
                drawn.append(Drawn(live, graph))
    return drawn


def _streams() -> ui.element:
    with card("Streams"):
        return box("div")


def _show(tiles: dict[str, Tile], stats: dict[str, Any]) -> None:
    rows, results = stats.get("rows", 0), stats.get("results", 0)
    tiles["rows"].show(stats.get("rows_per_second"), "rows/s", f"{print_number(rows)} in all")
    tiles["results"].show(
        stats.get("results_per_second"), "results/s", f"{print_number(results)} in all"
    )
    high = stats.get("epoch_p99")
    tiles["epoch"].show(
        stats.get("epoch_p50"), "s", "" if high is None else f"p99 {print_span(high)}"
    )
    lags = stats.get("lag", {})
    slowest = max(lags, key=lambda name: lags[name], default=None)
    tiles["lag"].show(
        lags.get(slowest) if slowest else None, "s", f"of {slowest}" if slowest else ""
    )
    families = stats.get("families", 0)
    tiles["queries"].show(
        stats.get("queries"),
        "",
        f"in {print_number(families)} famil{'y' if families == 1 else 'ies'}",
    )
    n_rows = stats.get("state_rows")
    tiles["state"].show(
        stats.get("state_bytes"), "B", "" if n_rows is None else f"{print_number(n_rows)} rows"
    )
    dead, late = stats.get("dead", 0), stats.get("late", 0)
    tiles["aside"].show(
        dead + late, "", f"{print_number(dead)} dead, {print_number(late)} late", alarm=False
    )


def _fill(place: ui.element, streams: list[dict[str, Any]], stats: dict[str, Any]) -> None:
    place.clear()
    with place:
        if not streams:
            empty(
                "water",
                "No streams",
                "Declare one with CREATE STREAM, or with millrace serve SCRIPT.",
            )
            return
        lags = stats.get("lag", {})
        with box("div", "mr-scroll"), box("table", "mr-table", aria_label="streams"):
            with box("thead"), box("tr"):
                for name, kind in COLUMNS:
                    text("th", name, kind, scope="col")
            with box("tbody"):
                for each in streams:
                    _stream_row(each, lags)


def _stream_row(stream: dict[str, Any], lags: dict[str, float]) -> None:
    with box("tr"):
        text("td", stream["name"])
        with box("td"):
            outage = stream.get("outage")
            chip("suspended" if outage else "running", "source is away" if outage else "running")
        text("td", print_number(stream.get("rows_per_second") or 0), "num")
        lag = lags.get(stream["name"])
        text("td", UNKNOWN if lag is None else print_value(lag, "s"), "num")
        text("td", stream.get("delay") or UNKNOWN, "num")
        text("td", stream.get("retain") or "not kept", "num")
        text("td", ", ".join(each["name"] for each in stream["columns"]), "mr-mono")
