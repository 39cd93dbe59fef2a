"""Selections: printed, and there and back through JSON."""

from __future__ import annotations

from millrace.plan.expressions import Column
from millrace.plan.nodes import Output, Selection, select
from millrace.plan.term import col


def test_a_selection_survives_json() -> None:
    selection = select("trades", "symbol", where=col("price") > 1, dear=col("price") > 500)

    assert Selection.from_json(selection.to_json()) == selection
    assert Selection.from_json(select("trades").to_json()) == select("trades")


def test_outputs_come_in_the_order_they_were_asked_for() -> None:
    outputs = select("trades", "b", "a", c=col("a")).outputs

    assert outputs == (
        Output("b", Column("b")), Output("a", Column("a")), Output("c", Column("a")))  # fmt: skip
    assert str(select("trades", "b", c=col("a"))) == "SELECT b, a AS c FROM trades"
