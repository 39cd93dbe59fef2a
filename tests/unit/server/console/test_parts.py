"""What comes from outside is escaped wherever a page is written as text."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from millrace.server.console.layout import lay_out
from millrace.server.console.parts import table_html
from millrace.server.console.plan import _svg

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"


def test_cells_and_names_of_columns_are_escaped() -> None:
    spelt = table_html(pa.table({HOSTILE: [HOSTILE], "n": [None]}), HOSTILE)

    assert "<script" not in spelt
    assert "<img" not in spelt
    assert spelt.count("&lt;script&gt;") == 3


@given(st.text())
def test_whatever_a_cell_holds_there_are_as_many_tags(cell: str) -> None:
    plain = table_html(pa.table({"a": ["x"]}), "t")

    assert table_html(pa.table({"a": [cell]}), "t").count("<") == plain.count("<")


def test_names_do_not_get_into_the_picture_of_edges() -> None:
    nodes = [{"id": HOSTILE, "kind": "stream"}, {"id": "b", "kind": "feed"}]
    graph = {"nodes": nodes, "edges": [{"from": HOSTILE, "to": "b", "rate": 5.0}]}

    assert "script" not in _svg(lay_out(graph))
