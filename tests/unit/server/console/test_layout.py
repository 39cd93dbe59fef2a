"""Laying out a dataflow: who reads stands right of what is read, and nothing overlaps."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from millrace.server.console.layout import HEIGHT, WIDTH, lay_out

KINDS = ("stream", "index", "family", "store", "operator", "feed", "sink")


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, Any]:
    """Make a graph without cycles: edges lead to nodes of a later kind or number."""
    n_nodes = draw(st.integers(1, 25))
    kinds = sorted(draw(st.lists(st.sampled_from(KINDS), min_size=n_nodes, max_size=n_nodes)),
                   key=KINDS.index)  # fmt: skip
    nodes = [{"id": f"n{at}", "kind": kind} for at, kind in enumerate(kinds)]
    pairs = st.tuples(st.integers(0, n_nodes - 1), st.integers(0, n_nodes - 1))
    edges = {
        (a, b)
        for a, b in draw(st.lists(pairs, max_size=40))
        if a < b and not (kinds[a] == kinds[b] and kinds[a] in ("feed", "sink"))
    }
    rates = st.floats(0, 1e12)
    return {
        "nodes": nodes,
        "edges": [{"from": f"n{a}", "to": f"n{b}", "rate": draw(rates)} for a, b in sorted(edges)],
    }


@given(graphs())
def test_readers_stand_right_of_what_they_read(graph: dict[str, Any]) -> None:
    layout = lay_out(graph)

    for edge in graph["edges"]:
        assert layout.places[edge["from"]][0] + WIDTH < layout.places[edge["to"]][0]


@given(graphs())
def test_nodes_do_not_overlap_and_all_are_within(graph: dict[str, Any]) -> None:
    layout = lay_out(graph)

    places = list(layout.places.values())
    assert len(places) == len(graph["nodes"])
    for at, (x, y) in enumerate(places):
        assert 0 <= x <= layout.width - WIDTH
        assert 0 <= y <= layout.height - HEIGHT
        for other_x, other_y in places[:at]:
            assert abs(x - other_x) >= WIDTH or abs(y - other_y) >= HEIGHT


@given(graphs())
def test_feeds_and_sinks_stand_in_columns_of_their_own_at_the_right(graph: dict[str, Any]) -> None:
    places = lay_out(graph).places

    columns: dict[str, set[int]] = {}
    for node in graph["nodes"]:
        last = node["kind"] if node["kind"] in ("feed", "sink") else "other"
        columns.setdefault(last, set()).add(places[node["id"]][0])
    others, feeds, sinks = (columns.get(each, set()) for each in ("other", "feed", "sink"))
    assert len(feeds) <= 1
    assert len(sinks) <= 1
    edges = [max(others, default=None), min(feeds, default=None), min(sinks, default=None)]
    there = [each for each in edges if each is not None]
    assert there == sorted(set(there))


def test_an_empty_graph_has_a_layout() -> None:
    assert lay_out({"nodes": [], "edges": []}).places == {}
