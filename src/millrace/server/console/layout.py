"""Laying out a dataflow: where its nodes stand, from left to right, and the curves between them.

A node stands one column right of the last one that it reads from. Within a column nodes are
ordered by the mean place of those that they are connected with, some times from the left and from
the right, which keeps most edges from crossing (Sugiyama, Tagawa, Toda 1981). Streams stand left,
and feeds in one column, with sinks right of it.

Cost: 8 passes over the edges; some hundred nodes take milliseconds.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

WIDTH, HEIGHT = 176, 56
GAP_X, GAP_Y = 56, 18
MARGIN = 24
PASSES = 8
LAST = {"feed": 1, "sink": 2}
"""Kinds that stand right of all others, in this order."""


@dataclass(frozen=True, slots=True)
class Curve:
    """An edge as it is drawn: a path of SVG, its width, and where its label stands."""

    begin: str
    end: str
    path: str
    width: float
    middle: tuple[float, float]
    rate: float


@dataclass(frozen=True, slots=True)
class Layout:
    """Where nodes stand (their upper left corners), the curves, and the size of it all."""

    places: Mapping[str, tuple[int, int]]
    curves: tuple[Curve, ...]
    width: int
    height: int


def lay_out(graph: Mapping[str, Any]) -> Layout:
    """Place the nodes of a graph."""
    kinds = {node["id"]: node["kind"] for node in graph["nodes"]}
    edges = [(edge["from"], edge["to"]) for edge in graph["edges"]]
    columns = _ordered(_columns(kinds, edges), edges)
    tallest = max((len(each) for each in columns), default=0)
    places = {}
    for at, column in enumerate(columns):
        top = (tallest - len(column)) * (HEIGHT + GAP_Y) // 2
        for row, node in enumerate(column):
            x = MARGIN + at * (WIDTH + GAP_X)
            places[node] = x, MARGIN + top + row * (HEIGHT + GAP_Y)
    curves = tuple(
        _curve(edge["from"], edge["to"], places, float(edge["rate"])) for edge in graph["edges"]
    )
    width = 2 * MARGIN + len(columns) * (WIDTH + GAP_X) - GAP_X
    return Layout(places, curves, width, 2 * MARGIN + tallest * (HEIGHT + GAP_Y) - GAP_Y)


def edge_width(rate: float) -> float:
    """Return how wide an edge is drawn: by the order of magnitude of its rows a second.

    >>> edge_width(0), edge_width(9), edge_width(999), edge_width(1e9)
    (1.0, 2.0, 4.0, 8.0)
    """
    return min(1.0 + math.log10(1.0 + max(rate, 0.0)), 8.0)


def _columns(kinds: Mapping[str, str], edges: Iterable[tuple[str, str]]) -> list[list[str]]:
    depth = dict.fromkeys(kinds, 0)
    pairs = list(edges)
    for _ in (
        kinds
    ):  # the longest path; a graph without cycles is done after as many passes as it is deep
        moved = False
        for begin, end in pairs:
            if depth[end] < depth[begin] + 1:
                depth[end], moved = depth[begin] + 1, True
        if not moved:
            break
    deepest = max((depth[node] for node, kind in kinds.items() if kind not in LAST), default=0)
    for node, kind in kinds.items():
        if kind in LAST:
            depth[node] = deepest + LAST[kind]
    columns: dict[int, list[str]] = defaultdict(list)
    for node in kinds:
        columns[depth[node]].append(node)
    return [columns[each] for each in sorted(columns)]


def _ordered(columns: list[list[str]], edges: list[tuple[str, str]]) -> list[list[str]]:
    near: dict[str, list[str]] = defaultdict(list)
    for begin, end in edges:
        near[begin].append(end)
        near[end].append(begin)
    place = {node: float(row) for column in columns for row, node in enumerate(column)}
    for turn in range(PASSES):
        for column in columns if turn % 2 else reversed(columns):
            means = {
                node: sum(place[each] for each in near[node]) / len(near[node])
                if near[node]
                else place[node]
                for node in column
            }
            column.sort(key=means.__getitem__)
            offset = (max(map(len, columns)) - len(column)) / 2
            place.update({node: row + offset for row, node in enumerate(column)})
    return columns


def _curve(begin: str, end: str, places: Mapping[str, tuple[int, int]], rate: float) -> Curve:
    left, top = places[begin]
    x1, y1 = left + WIDTH, top + HEIGHT // 2
    x2, y2 = places[end][0], places[end][1] + HEIGHT // 2
    bend = max((x2 - x1) // 2, GAP_X // 2)
    path = f"M{x1},{y1} C{x1 + bend},{y1} {x2 - bend},{y2} {x2},{y2}"
    return Curve(begin, end, path, edge_width(rate), ((x1 + x2) / 2, (y1 + y2) / 2), rate)
