"""Graphs: each is a query over SysStream, and this is how its answer is drawn.

The answer has a column of time, a column of numbers, and perhaps columns of text that tell its
lines apart. A graph asks for the last hour once, and then for what is new.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from nicegui import ui

from millrace.server.console.frame import Live
from millrace.server.console.parts import attributed, box, empty
from millrace.time import SECOND

COLOURS = ("#2f80ed", "#1f9d8b", "#d97706", "#d0518a", "#8e5cd9", "#6b8e23", "#c2410c", "#64748b")
AXIS = "#74808e"
MOST_LINES = 8
HOUR_MS = 3_600_000
LONGEST_DELAY = 180 * SECOND
"""How much later than it is about something may be told, at most, to be drawn."""
NOTHING = "The engine tells of itself once a second while epochs run."

Lines: TypeAlias = dict[str, list[tuple[int, float]]]
"""Points of (milliseconds, value) by the names of lines, oldest first."""

_JS_UNITS = {
    "s": "v => v >= 1 ? +v.toPrecision(3) + ' s' : +(v * 1000).toPrecision(3) + ' ms'",
    "B": "v => { let u = ['B', 'kB', 'MB', 'GB', 'TB'], i = 0; while (v >= 1024 && i < 4) "
    "{ v /= 1024; i++; } return +v.toPrecision(3) + ' ' + u[i]; }",
    "%": "v => +(v * 100).toPrecision(3) + ' %'",
    "": "v => v >= 1e9 ? +(v / 1e9).toPrecision(3) + ' G' : v >= 1e6 ? +(v / 1e6).toPrecision(3) + "
    "' M' : v >= 1e4 ? +(v / 1e3).toPrecision(3) + ' k' : +v.toPrecision(4) + ''",
}


@dataclass(frozen=True, slots=True)
class Graph:
    """What a graph is called, in which unit it is, and the query that it draws."""

    key: str
    title: str
    unit: str
    text: str


def _graph(key: str, title: str, unit: str, columns: str, condition: str) -> Graph:
    return Graph(key, title, unit, f"SELECT {columns}\nFROM sysstream\nWHERE {condition}")


_BY_NAME, _BY_PROPERTY, _ONE = "ts, name, fval", "ts, property, fval", "ts, fval"
_STREAMS = "type = 'stream' AND name <> 'sysstream'"
GRAPHS = {
    each.key: each
    for each in (
        _graph("rows", "Rows in", "rows/s", _BY_NAME, f"{_STREAMS} AND property = 'rate'"),
        _graph("results", "Results", "results/s", _ONE,
               "type = 'epoch' AND property = 'result_rate'"),
        _graph("latency", "Epoch latency", "s", _BY_PROPERTY,
               "type = 'epoch' AND property IN ('p50', 'p99')"),
        _graph("lag", "Watermark lag", "s", _BY_NAME, f"{_STREAMS} AND property = 'lag'"),
        _graph("state", "State", "B", _ONE, "type = 'engine' AND property = 'state_bytes'"),
        _graph("aside", "Set aside", "rows/s", _BY_PROPERTY,
               "type = 'epoch' AND property IN ('late_rate', 'dead_rate')"),
        _graph("busy", "Time spent in epochs", "%", _ONE,
               "type = 'epoch' AND property = 'busy'"),
        _graph("queries", "Standing queries", "", _ONE,
               "type = 'engine' AND property = 'queries'"),
        _graph("families", "Families", "", _ONE, "type = 'engine' AND property = 'families'"),
        _graph("top", "Results by query", "results/s", _BY_NAME,
               "type = 'query' AND property = 'rate'"),
        _graph("operators", "Time of operators", "s", "ts, query, name, fval",
               "type = 'operator' AND property = 'seconds'"),
        _graph("memory", "Memory of the engine", "B", _ONE,
               "type = 'engine' AND property = 'memory_bytes'"),
        _graph("requests", "Requests of gateways", "requests/s", _BY_NAME,
               "type = 'gateway' AND property = 'rate'"),
        _graph("sinks", "Rows that wait for sinks", "rows", _BY_NAME,
               "type = 'sink' AND property = 'backlog_rows'"),
    )
}  # fmt: skip
OVERVIEW = ("rows", "results", "latency", "lag", "queries", "families", "state", "aside")


class Chart:
    """A chart of lines on a page. It stays where it is, and what it shows changes.

    A chart that is taken off a page while the browser is still making it fails there.
    """

    def __init__(self, title: str, unit: str = "", *, height: int = 200) -> None:
        with box("div").style(f"position: relative; height: {height}px") as self.place:
            self._chart = ui.echart(chart_options(unit)).classes("mr-graph")
            self._chart.style(f"height: {height}px")
            self._nothing = empty("show_chart", "No rows yet", NOTHING)
            self._nothing.style("position: absolute; inset: 0; display: none")
            self._nothing.style("justify-content: center")
        self.rename(title, unit)

    def rename(self, title: str, unit: str) -> None:
        """Show something else from now on; what was shown goes."""
        self._unit = unit
        attributed(self._chart, {"role": "img", "aria_label": f"graph: {title}"})
        self._chart.options.update(chart_options(unit))
        self._chart.update()

    def show(self, lines: Lines, *, least: int | None = 0) -> None:
        """Show lines; the axis of values begins with `least`, or where they do."""
        self._nothing.style("display: none" if lines else "display: flex")
        options, several = self._chart.options, len(lines) > 1
        options["series"] = series_of(lines)
        options["legend"]["show"] = several
        options["grid"]["top"] = 40 if several else 12
        options["yAxis"]["min"] = least
        if self._unit == "B":
            most = max((value for line in lines.values() for _, value in line), default=0.0)
            step = byte_step(most)
            options["yAxis"] |= {"interval": step, "max": step * math.ceil(most / step or 1)}
        self._chart.update()

    def hide(self, *, hidden: bool) -> None:
        """Take the chart out of sight, or back."""
        self.place.style("display: none" if hidden else "display: block")


class Drawn:
    """A graph on a page, which follows what its query answers."""

    def __init__(self, live: Live, graph: Graph, *, height: int = 200) -> None:
        self._live, self._graph = live, graph
        self._lines: Lines = {}
        self._newest: int | None = None
        self.chart = Chart(graph.title, graph.unit, height=height)

    def change(self, graph: Graph) -> None:
        """Draw another graph from now on."""
        self._graph, self._lines, self._newest = graph, {}, None
        self.chart.rename(graph.title, graph.unit)

    async def refresh(self) -> None:
        """Ask for what is new, and draw it."""
        graph, since = self._graph, self._newest
        answer = await self._live.asked.sql(self._live.who, graph.text, since=since)
        if graph is not self._graph or since != self._newest:
            return  # meanwhile it is another one, or another call was quicker
        fresh = lines_of(answer)
        for name, points in fresh.items():
            self._lines.setdefault(name, []).extend(points)
        newest = newest_of(answer) if fresh else since
        self._newest = known_until(newest, time.time_ns() // 1_000)
        if fresh:
            self._forget()
        if fresh or not self._lines:
            self.chart.show(self._lines)

    def _forget(self) -> None:
        """Forget what is older than an hour."""
        begin = max(points[-1][0] for points in self._lines.values()) - HOUR_MS
        self._lines = {
            name: kept
            for name, points in self._lines.items()
            if (kept := [each for each in points if each[0] >= begin])
        }


def lines_of(answer: pa.Table) -> Lines:
    """Read lines from an answer: points of (milliseconds, value), oldest first.

    Columns of time, of numbers and of text are told by their types: the first of time and the last
    of numbers count. An answer without them has no lines.
    """
    times = [each.name for each in answer.schema if pa.types.is_timestamp(each.type)]
    values = [
        each.name
        for each in answer.schema
        if (pa.types.is_floating(each.type) or pa.types.is_integer(each.type))
        and not each.name.startswith("_")
    ]
    if not times or not values:
        return {}
    words = [each.name for each in answer.schema if pa.types.is_string(each.type)]
    columns = [answer.column(each).to_pylist() for each in words]
    names = [" ".join(map(str, each)) for each in zip(*columns, strict=True)]
    found: dict[str, list[tuple[int, float]]] = defaultdict(list)
    at = answer.column(times[0]).cast(pa.timestamp("ms", tz="UTC"), safe=False).cast(pa.int64())
    number = answer.column(values[-1]).cast(pa.float64(), safe=False)
    rows = zip(names or [""] * answer.num_rows, at.to_pylist(), number.to_pylist(), strict=True)
    for name, instant, value in rows:
        if instant is not None and value is not None:
            found[name].append((instant, value))
    return {name: sorted(points) for name, points in found.items()}


def known_until(newest: int | None, now: int) -> int:
    """Return up to when a graph knows everything, in us, after it has asked; `newest` is its point.

    A graph of something that tells nothing has no newest point, or an old one. It must not read the
    hour again and again: what is told comes within seconds, so some minutes are enough.

    >>> known_until(None, 600 * SECOND) // SECOND, known_until(590 * SECOND, 600 * SECOND) // SECOND
    (420, 590)
    """
    return max(newest or 0, now - LONGEST_DELAY)


def newest_of(answer: pa.Table) -> int | None:
    """Return the newest instant in an answer, in us."""
    times = [each for each in answer.columns if pa.types.is_timestamp(each.type)]
    newest = pc.max(times[0]).cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).as_py()
    return None if newest is None else int(newest)


def series_of(lines: Lines) -> list[dict[str, Any]]:
    """Return series to draw: of many lines those that are the highest at the end."""
    highest = sorted(lines, key=lambda name: -lines[name][-1][1])[:MOST_LINES]
    alone = len(highest) == 1
    return [
        {
            "type": "line",
            "name": name or "value",
            "showSymbol": len(lines[name]) < 3,
            "sampling": "lttb",
            "lineStyle": {"width": 1.5},
            "areaStyle": {"opacity": 0.12 if alone else 0.0},
            "data": [list(each) for each in lines[name]],
        }
        for name in sorted(highest)
    ]


def byte_step(most: float) -> int:
    """Return between which sizes an axis has a line: a power of two, so that they are even.

    >>> byte_step(7_100_000) == 2 << 20, byte_step(0)
    (True, 1)
    """
    return 1 << max(math.ceil(math.log2(max(most, 1) / 4)), 0)


def chart_options(unit: str) -> dict[str, Any]:
    """Return an empty chart of a unit; its colours suit light and dark."""
    spelt = _JS_UNITS.get(unit, _JS_UNITS[""])
    faint = {"lineStyle": {"color": "rgba(128, 140, 155, .18)"}}
    return {
        "color": list(COLOURS),
        "animation": False,
        "textStyle": {"fontFamily": "Roboto, sans-serif"},
        "grid": {"left": 8, "right": 16, "top": 12, "bottom": 4, "containLabel": True},
        "legend": {
            "show": False,
            "type": "scroll",
            "top": 4,
            "left": 0,
            "icon": "circle",
            "itemWidth": 8,
            "itemHeight": 8,
            "padding": [2, 0],
            "textStyle": {"color": AXIS, "fontSize": 11, "lineHeight": 14},
            "pageTextStyle": {"color": AXIS},
            "pageIconColor": AXIS,
            "pageIconInactiveColor": "rgba(128, 140, 155, .3)",
            "pageIconSize": 10,
        },
        "tooltip": {
            "trigger": "axis",
            "confine": True,
            "backgroundColor": "rgba(20, 27, 36, .94)",
            "borderWidth": 0,
            "textStyle": {"color": "#e7ecf2", "fontSize": 12},
            ":valueFormatter": spelt,
        },
        "xAxis": {
            "type": "time",
            "axisLine": {"lineStyle": {"color": "rgba(128, 140, 155, .35)"}},
            "axisTick": {"show": False},
            "axisLabel": {"color": AXIS, "fontSize": 11, "hideOverlap": True},
            "splitLine": {"show": False},
        },
        "yAxis": {
            "type": "value",
            "min": 0,
            "splitNumber": 3,
            "axisLabel": {"color": AXIS, "fontSize": 11, ":formatter": spelt},
            "splitLine": faint,
        },
        "series": [],
    }
