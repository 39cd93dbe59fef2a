"""Which relations only grow, and which are there for instants only."""

from __future__ import annotations

import pytest

from millrace.plan.expressions import Both, Column, Compare, Either, Expression, Literal, Not
from millrace.plan.growth import instantaneous, monotonic
from millrace.plan.nodes import Output
from millrace.plan.relations import (
    Aggregate,
    Asked,
    AskedKind,
    Combined,
    Distinct,
    Filter,
    Group,
    Join,
    Project,
    Relation,
    Source,
    StreamOf,
    Table,
    Top,
    Window,
    Windowed,
)


def windowed(window: Window, alias: str = "s") -> Windowed:
    return Windowed(Source("s"), window, alias)


ALL = windowed(Window("range"))
OTHER = windowed(Window("range"), "t")
NOW = windowed(Window("range", 0))
LAST = windowed(Window("rows", 5))
A, FOUND = Column("s.a"), Column("#1")
BIG = Compare(">", A, Literal(1))


def semijoin(condition: Expression, subquery: Relation = OTHER, kind: AskedKind = "in") -> Filter:
    return Filter(Asked(ALL, "#1", kind, subquery, (A,)), condition)


def plain(relation: Relation) -> Project:
    return Project(relation, (Output("a", A),))


@pytest.mark.parametrize(
    ("relation", "grows"),
    [
        (ALL, True),
        (LAST, False),
        (NOW, False),
        (windowed(Window("range", since=5, until=9)), True),
        (windowed(Window("range", lag=9)), True),
        (windowed(Window("range", 10, lag=9)), False),
        (Windowed(StreamOf("dstream", LAST), Window("range"), "d"), True),
        (Table("t", "t"), False),
        (Filter(ALL, BIG), True),
        (plain(ALL), True),
        (Join("inner", ALL, OTHER, BIG), True),
        (Join("inner", ALL, LAST), False),
        (Join("left", ALL, OTHER, BIG), False),
        (Distinct(ALL), True),
        (Group(ALL, (Output("s.a", A),), ()), True),
        (Group(ALL, (Output("s.a", A),), (Aggregate("#1", "count"),)), False),
        (Group(ALL, (), (Aggregate("#1", "count"),)), False),
        (Combined("union", ALL, OTHER), True),
        (Combined("union", ALL, LAST, keep_all=True), False),
        (Combined("intersect", ALL, OTHER), True),
        (Combined("except", ALL, OTHER), False),
        (Top(ALL, (), 3), False),
        (plain(semijoin(FOUND)), True),
        (plain(semijoin(FOUND, kind="exists")), True),
        (plain(semijoin(Both(BIG, FOUND))), True),
        (plain(semijoin(Either(BIG, FOUND))), True),
        (plain(semijoin(Not(FOUND))), False),
        (plain(semijoin(FOUND, LAST)), False),
        (plain(semijoin(Compare("=", A, FOUND), kind="scalar")), False),
        (Project(semijoin(FOUND), (Output("found", FOUND),)), False),
        (Project(semijoin(FOUND), (Output("missed", Not(FOUND)),)), False),
    ],
)
def test_a_relation_grows_if_it_can_never_lose_a_row(*, relation: Relation, grows: bool) -> None:
    assert monotonic(relation) == grows


@pytest.mark.parametrize(
    ("relation", "short"),
    [
        (NOW, True),
        (ALL, False),
        (windowed(Window("rows", 1)), False),
        (windowed(Window("range", 0, slide=5)), False),
        (Table("t", "t"), False),
        (plain(Filter(NOW, BIG)), True),
        (Distinct(NOW), True),
        (Join("inner", NOW, LAST), True),
        (Join("left", NOW, LAST), True),
        (Join("right", NOW, LAST), False),
        (Join("full", NOW, LAST), False),
        (Group(NOW, (Output("s.a", A),), (Aggregate("#1", "count"),)), True),
        (Group(NOW, (), (Aggregate("#1", "count"),)), False),
        (Combined("union", NOW, NOW), True),
        (Combined("union", NOW, ALL), False),
        (Combined("except", NOW, ALL), True),
        (Combined("intersect", ALL, NOW), True),
        (Asked(NOW, "#1", "in", ALL, (A,)), True),
        (Top(NOW, (), 1), True),
    ],
)
def test_a_relation_is_instantaneous_if_it_is_empty_between(
    *, relation: Relation, short: bool
) -> None:
    assert instantaneous(relation) == short
