"""Which rows a relation holds, in words and in numbers."""

from __future__ import annotations

import pytest

from millrace.plan.expressions import Column, Compare
from millrace.plan.extent import Extent, extent
from millrace.plan.nodes import Output
from millrace.plan.relations import (
    Combined,
    Distinct,
    Filter,
    Group,
    Join,
    Order,
    Relation,
    Source,
    StreamOf,
    Table,
    Top,
    Window,
    Windowed,
)
from millrace.time import SECOND

RECENT = Windowed(Source("s"), Window("range", 10 * SECOND), "s")
SLIDING = Windowed(Source("s"), Window("range", 10 * SECOND, 2 * SECOND), "s")
ROWS = Windowed(Source("t"), Window("rows", 100), "t")
KEYS = (Output("k", Column("s.k")),)


@pytest.mark.parametrize(
    ("relation", "words", "rows"),
    [
        (RECENT, "rows of s of the last 10 seconds", 30),
        (SLIDING, "rows of s of the last 12 seconds", 36),
        (ROWS, "last 100 rows of t", 100),
        (Windowed(Source("t"), Window("rows", 1, by=("k",)), "t"), "last row of t for each k",
         None),
        (Windowed(Source("t"), Window("range", 0), "t"), "rows of t of one instant", None),
        (Windowed(Source("s"), Window("range"), "s"), "rows of s since the query began", None),
        (Windowed(StreamOf("istream", RECENT), Window("range", SECOND), "x"),
         "rows of the istream below of the last 1 second", None),
        (Table("limits", "l"), "rows of table limits", None),
        (Filter(RECENT, Compare("=", Column("s.k"), Column("s.k"))),
         "rows of s of the last 10 seconds", 30),
        (Distinct(ROWS), "different last 100 rows of t", 100),
        (Group(RECENT, KEYS, ()), "groups of the rows of s of the last 10 seconds", 30),
        (Group(RECENT, (), ()), "only group", 1),
        (Join("inner", RECENT, Join("inner", ROWS, Table("u", "x"))), "pairs of s, t, x", None),
        (Combined("union", RECENT, ROWS),
         "rows of s of the last 10 seconds and the last 100 rows of t", 130),
        (Top(ROWS, (Order(Column("t.k")),), 5), "first 5 of the last 100 rows of t", 5),
    ],
)  # fmt: skip
def test_a_relation_is_measured(relation: Relation, words: str, rows: float | None) -> None:
    found = extent(relation, {"s": 3.0})

    assert (found.words, found.rows) == (words, rows)


def test_without_a_rate_nothing_is_said_of_numbers() -> None:
    assert extent(RECENT, {}) == Extent("rows of s of the last 10 seconds", None, ends=True)


def test_some_rows_know_when_they_will_go() -> None:
    known = RECENT, Join("inner", RECENT, ROWS), Combined("union", ROWS, RECENT, keep_all=True)
    unknown = ROWS, Distinct(RECENT), Combined("union", ROWS, RECENT), Group(RECENT, KEYS, ())

    assert all(extent(each, {}).ends for each in known)
    assert not any(extent(each, {}).ends for each in unknown)
