"""What of a plan grows for as long as it runs: with different values, with rows, or not at all."""

from __future__ import annotations

import pytest

from millrace.plan.bounds import growths
from millrace.plan.expressions import Column
from millrace.plan.nodes import Output
from millrace.plan.relations import (
    Aggregate,
    AggregateKind,
    Combined,
    Distinct,
    Filter,
    Group,
    Join,
    Project,
    Relation,
    SetKind,
    Source,
    StreamOf,
    Table,
    Top,
    Window,
    Windowed,
)

V = Column("s.v")


def windowed(window: Window, stream: str = "s") -> Windowed:
    return Windowed(Source(stream), window, stream)


ALL, LATELY = windowed(Window("range")), windowed(Window("range", 9))
SINCE, UNTIL = windowed(Window("range", since=5)), windowed(Window("range", until=5))
OTHER, BRIEF = windowed(Window("range"), "t"), windowed(Window("range", 9), "t")
MIXED = Combined("union", ALL, BRIEF, keep_all=True)


def aggregated(kind: AggregateKind, given: Relation, *, distinct: bool = False) -> Group:
    return Group(given, (), (Aggregate("#1", kind, V, distinct),))


def grouped(given: Relation) -> Group:
    return Group(given, (Output("s.k", Column("s.k")),), (Aggregate("#1", "count"),))


def combined(kind: SetKind, *, keep_all: bool = False) -> Combined:
    return Combined(kind, ALL, BRIEF, keep_all)


@pytest.mark.parametrize(
    ("plan", "found"),
    [
        (ALL, []),
        (Filter(ALL, V), []),
        (Project(ALL, (Output("v", V),)), []),
        (StreamOf("istream", ALL), []),
        (StreamOf("rstream", ALL, 5), [("RSTREAM", "with rows", "s")]),
        (Distinct(ALL), [("DISTINCT", "with values", "s")]),
        (Distinct(LATELY), []),
        (Distinct(UNTIL), []),
        (Distinct(SINCE), [("DISTINCT", "with values", "s")]),
        (windowed(Window("rows", 3)), []),
        (windowed(Window("rows", 3, by=("k",))), [("PARTITION BY", "with values", "s")]),
        (grouped(ALL), [("GROUP BY", "with values", "s")]),
        (grouped(LATELY), []),
        (aggregated("sum", ALL), []),
        (aggregated("sum", ALL, distinct=True), [("sum(DISTINCT ...)", "with values", "s")]),
        (aggregated("percentile_cont", ALL), [("percentile_cont", "with rows", "s")]),
        (aggregated("array_agg", LATELY), []),
        (aggregated("min", ALL), []),
        (aggregated("max", ALL, distinct=True), []),
        (aggregated("min", MIXED), [("min", "with values", "s")]),
        (aggregated("max", grouped(ALL)), [
            ("GROUP BY", "with values", "s"), ("max", "with values", "s"),
        ]),
        (aggregated("max", Join("inner", LATELY, BRIEF)), []),
        (Join("inner", ALL, BRIEF), [("the join", "with rows", "s")]),
        (Join("left", LATELY, OTHER), [("the join", "with rows", "t")]),
        (Join("inner", LATELY, Table("r", "r")), []),
        (combined("union", keep_all=True), []),
        (combined("union"), [("UNION", "with values", "s")]),
        (combined("except"), [("EXCEPT", "with values", "s")]),
        (combined("intersect", keep_all=True), [("INTERSECT", "with values", "s")]),
        (Top(ALL, (), 3), [("ORDER BY with LIMIT", "with rows", "s")]),
        (Distinct(Top(LATELY, (), 3)), []),
    ],
)  # fmt: skip
def test_what_grows_is_known(plan: Relation | StreamOf, found: list[tuple[str, str, str]]) -> None:
    assert [(each.operator, each.grows, each.stream) for each in growths(plan)] == found
