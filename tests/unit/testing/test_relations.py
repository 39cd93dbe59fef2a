"""The definition of CQL, at its edges one by one; DuckDB judges the rest of it."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.plan.expressions import Column, Compare, IsNull, Literal, Not
from millrace.plan.nodes import Output
from millrace.plan.relation_types import Declared
from millrace.plan.relations import (
    Aggregate,
    Asked,
    Combined,
    Filter,
    Group,
    Order,
    Project,
    Relation,
    Source,
    StreamOf,
    Table,
    Top,
    Window,
    Windowed,
)
from millrace.schema import Schema
from millrace.testing.oracle.relations import Change, Definition, Element, SeveralRowsError

DECLARED = Declared(
    {"s": Schema.of("k int, v int"), "t": Schema.of("k int, v int")},
    {"r": Schema.of("k int, v int")},
)
LAST = 9


def given_stream(*elements: tuple[int, int | None, int | None]) -> list[Element]:
    return [(at, {"k": k, "v": v}) for at, k, v in elements]


def shown(window: Window, elements: list[Element]) -> list[list[int]]:
    """Return the values of `v` that a window shows at each instant, in order."""
    definition = Definition(DECLARED, {"s": elements})
    return [
        sorted(row["s.v"] for row in definition.relation(Windowed(Source("s"), window, "s"), at))
        for at in range(LAST)
    ]


TIES = given_stream((1, 1, 10), (1, 2, 11), (1, 1, 12), (3, 2, 13), (5, 1, 14))


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (Window("range", 0), [[], [10, 11, 12], [], [13], [], [14], [], [], []]),
        (
            Window("range", 2),  # both ends included: gone at 1 + 2 + 1
            [[], [10, 11, 12], [10, 11, 12], [10, 11, 12, 13], [13], [13, 14], [14], [14], []],
        ),
        (Window("range"), [[], *[[10, 11, 12]] * 2, *[[10, 11, 12, 13]] * 2]
         + [[10, 11, 12, 13, 14]] * 4),
        (Window("rows", 2), [[], *[[11, 12]] * 2, *[[12, 13]] * 2, *[[13, 14]] * 4]),
        (Window("rows", 1, by=("k",)), [[], *[[11, 12]] * 2, *[[12, 13]] * 2, *[[13, 14]] * 4]),
        (Window("rows", 2, slide=2), [[], *[[10, 11]] * 2, *[[12, 13]] * 6]),
        (Window("rows", 3, slide=5), [[]] * 5 + [[12, 13, 14]] * 4),
        (Window("range", 4, slide=4), [[]] * 4 + [[10, 11, 12, 13]] * 4 + [[14]]),
        (Window("range", 2, slide=4), [[]] * 4 + [[13]] * 4 + [[]]),
        (Window("range", since=2), [[]] * 3 + [[13]] * 2 + [[13, 14]] * 4),
        (Window("range", since=3, until=3), [[]] * 3 + [[13]] * 6),
        (Window("range", until=3), [[], *[[10, 11, 12]] * 2, *[[10, 11, 12, 13]] * 6]),
        (Window("range", lag=4), [[]] * 5 + [[10, 11, 12]] * 2 + [[10, 11, 12, 13]] * 2),
        (Window("range", 4, lag=2), [[]] * 3 + [[10, 11, 12]] * 2
         + [[10, 11, 12, 13], [13], [13, 14], [14]]),
        (Window("range", 2, lag=2), [[]] * 3 + [[10, 11, 12], [], [13], [], [14], []]),
        (Window("range", 3, since=2, until=4), [[]] * 3 + [[13]] * 4 + [[]] * 2),
        (Window("range", slide=4, since=2), [[]] * 4 + [[13]] * 4 + [[13, 14]]),
        (Window("range", slide=4), [[]] * 4 + [[10, 11, 12, 13]] * 4 + [[10, 11, 12, 13, 14]]),
    ],
)  # fmt: skip
def test_what_a_window_shows_at_each_instant(window: Window, expected: list[list[int]]) -> None:
    assert shown(window, TIES) == expected


def test_null_is_one_key_of_a_partition() -> None:
    window = Window("rows", 1, by=("k",))
    assert shown(window, given_stream((0, None, 1), (0, None, 2), (0, 1, 3)))[0] == [2, 3]


def told(kind: str, relation: Relation, elements: list[Element], every: int | None = None) -> Any:
    definition = Definition(DECLARED, {"s": elements})
    stream = StreamOf(kind, relation, every)  # type: ignore[arg-type]
    return [(at, *row.values()) for at, row in definition.stream(stream, LAST - 1)]


def test_what_comes_and_goes_at_one_instant_is_not_told() -> None:
    """At 2 the last row is replaced by an equal one."""
    last = Windowed(Source("s"), Window("rows", 1), "s")
    elements = given_stream((1, 1, 10), (2, 1, 10), (4, 1, 20))

    assert told("istream", last, elements) == [(1, 1, 10), (4, 1, 20)]
    assert told("dstream", last, elements) == [(4, 1, 10)]
    assert told("rstream", last, elements, every=4) == [(4, 1, 20), (8, 1, 20)]


def test_rows_expire_though_nothing_comes() -> None:
    window = Windowed(Source("s"), Window("range", 2), "s")
    assert told("dstream", window, given_stream((1, 1, 10))) == [(4, 1, 10)]


def test_an_unchanged_aggregate_is_not_told_again() -> None:
    counted = Group(Windowed(Source("s"), Window("rows", 2), "s"), (), (Aggregate("n", "count"),))
    elements = given_stream((2, 1, 1), (3, 1, 2), (4, 1, 3), (5, 1, 4))
    assert told("istream", counted, elements) == [(0, 0), (2, 1), (3, 2)]


def test_order_within_an_instant_of_a_derived_stream_is_canonical() -> None:
    derived = StreamOf("istream", Windowed(Source("s"), Window("range"), "s"))
    definition = Definition(
        DECLARED, {"s": given_stream((1, 2, 5), (1, None, 7), (1, 1, 9), (1, 1, None))}
    )

    rows = [tuple(row.values()) for _, row in definition.stream(derived, 1)]
    assert rows == [(None, 7), (1, None), (1, 9), (2, 5)]
    last = Windowed(derived, Window("rows", 1), "d")
    assert definition.relation(last, 1) == [{"d.s.k": 2, "d.s.v": 5}]


def test_groups_come_and_go_and_the_global_one_stays() -> None:
    now = Windowed(Source("s"), Window("range", 0), "s")
    aggregates = (
        Aggregate("n", "count"),
        Aggregate("vs", "count", Column("s.v")),
        Aggregate("total", "sum", Column("s.v")),
        Aggregate("mean", "avg", Column("s.v")),
        Aggregate("different", "count", Column("s.v"), distinct=True),
        Aggregate("big", "count", None, where=Compare(">", Column("s.v"), Literal(1))),
    )
    elements = given_stream((1, None, 1), (1, None, 2), (1, None, 2), (2, 7, None))
    definition = Definition(DECLARED, {"s": elements})
    by_key = Group(now, (Output("k", Column("s.k")),), aggregates)

    assert definition.relation(by_key, 0) == []
    assert [tuple(row.values()) for row in definition.relation(by_key, 1)] == [
        (None, 3, 3, 5, 5 / 3, 2, 2)
    ]
    assert [tuple(row.values()) for row in definition.relation(by_key, 2)] == [
        (7, 1, 0, None, None, 0, 0)
    ]
    assert [tuple(row.values()) for row in definition.relation(Group(now, (), aggregates), 0)] == [
        (0, 0, None, None, 0, 0)
    ]


def test_a_table_holds_what_was_inserted_and_not_deleted() -> None:
    changes: list[Change] = [(1, {"k": 1, "v": 1}, 2), (3, {"k": 1, "v": 1}, -1)]
    definition = Definition(DECLARED, {}, {"r": changes})
    sizes = [len(definition.relation(Table("r", "r"), at)) for at in range(5)]
    assert sizes == [0, 2, 2, 1, 1]


# ---- subqueries ----------------------------------------------------------------------------------

S = Windowed(Source("s"), Window("range"), "s")
T = Windowed(Source("t"), Window("range"), "t")
SAME_KEY = Compare("=", Column("t.k"), Column("s.k"))


def answers(asked: Asked, s: list[Element], t: list[Element]) -> list[tuple[Any, Any]]:
    """Return the values of `s.v` with what was answered about their rows, at instant 1."""
    rows = Definition(DECLARED, {"s": s, "t": t}).relation(asked, 1)
    return [(row["s.v"], row[asked.name]) for row in rows]


def of(relation: Relation, column: str) -> Relation:
    return Project(relation, (Output("found", Column(column)),))


def test_exists_asks_about_each_row() -> None:
    asked = Asked(S, "there", "exists", Filter(T, SAME_KEY))
    s = given_stream((0, 1, 10), (0, 2, 20), (0, None, 30))
    t = given_stream((0, 1, 0), (0, 1, 1), (0, None, 2))
    assert answers(asked, s, t) == [(10, True), (20, False), (30, False)]


@pytest.mark.parametrize(
    ("of_t", "expected"),
    [
        ([], [False, False, False]),
        ([1, 2], [True, False, None]),
        ([1, None], [True, None, None]),
        ([None], [None, None, None]),
    ],
)
def test_in_has_three_values(of_t: list[int | None], expected: list[bool | None]) -> None:
    asked = Asked(S, "there", "in", of(T, "t.v"), (Column("s.v"),))
    s = given_stream((0, 0, 1), (0, 0, 7), (0, 0, None))
    t = given_stream(*((0, 0, each) for each in of_t))

    assert [answer for _, answer in answers(asked, s, t)] == expected


def test_rows_are_in_by_all_of_their_columns() -> None:
    """A column that differs says no, though another is NULL."""
    columns = (Output("k", Column("t.k")), Output("v", Column("t.v")))
    asked = Asked(S, "there", "in", Project(T, columns), (Column("s.k"), Column("s.v")))
    s = given_stream((0, 1, 10), (0, 1, 11), (0, 2, 12), (0, None, 10), (0, None, 13))
    t = given_stream((0, 1, 10), (0, 2, None))
    assert answers(asked, s, t) == [(10, True), (11, False), (12, None), (10, None), (13, None)]


def test_a_scalar_is_null_without_rows_and_refuses_several() -> None:
    asked = Asked(S, "one", "scalar", of(Filter(T, SAME_KEY), "t.v"))
    s = given_stream((0, 1, 10), (0, 2, 20))

    assert answers(asked, s, given_stream((0, 1, 5))) == [(10, 5), (20, None)]
    with pytest.raises(SeveralRowsError, match='subquery "one" has 2 rows at 1'):
        answers(asked, s, given_stream((0, 1, 5), (0, 1, 5)))


def test_the_count_of_no_rows_is_zero_in_a_subquery_too() -> None:
    counted = Group(Filter(T, SAME_KEY), (), (Aggregate("n", "count"),))
    s, t = given_stream((0, 1, 10), (0, 2, 20)), given_stream((0, 1, 5), (0, 1, 6))
    assert answers(Asked(S, "n", "scalar", counted), s, t) == [(10, 2), (20, 0)]


def test_a_subquery_of_a_subquery_sees_all_rows_around_it() -> None:
    matching = Filter(Table("r", "r"), Compare("=", Column("r.k"), Column("s.v")))
    in_r = Asked(Filter(T, SAME_KEY), "in_r", "in", of(matching, "r.v"), (Column("t.v"),))
    asked = Asked(S, "there", "exists", Filter(in_r, Column("in_r")))
    definition = Definition(
        DECLARED,
        {"s": given_stream((0, 1, 10), (0, 2, 20)), "t": given_stream((0, 1, 5), (0, 2, 5))},
        {"r": [(0, {"k": 10, "v": 5}, 1), (0, {"k": 20, "v": 6}, 1)]},
    )
    assert [row["there"] for row in definition.relation(asked, 0)] == [True, False]


def test_every_operator_of_a_subquery_sees_the_row_around_it() -> None:
    outer = Column("s.v")
    shifted = (Output("found", outer),)
    subqueries: list[tuple[Relation, list[Any]]] = [
        (Project(T, shifted), [10]),
        (Group(T, shifted, ()), [10]),
        (of(Group(T, (), (Aggregate("n", "count", outer, distinct=True),)), "n"), [1]),
        (of(Group(T, (), (Aggregate("n", "max", Column("t.v"), where=Not(IsNull(outer))),)), "n"),
         [5]),
        (Combined("union", Project(T, shifted), of(T, "t.v")), [5, 10]),
        (of(Top(T, (Order(outer), Order(Column("t.v"))), 1), "t.v"), [5]),
    ]  # fmt: skip
    s, t = given_stream((0, 1, 10)), given_stream((0, 1, 5))

    for subquery, members in subqueries:
        for member in (1, 5, 10):
            asked = Asked(S, "there", "in", subquery, (Literal(member),))
            assert answers(asked, s, t) == [(10, member in members)], subquery


# ---- order ---------------------------------------------------------------------------------------

MIXED = given_stream((0, 2, 1), (0, None, 9), (0, 1, 5), (0, 1, None), (0, 1, 3), (0, 3, 0))


@pytest.mark.parametrize(
    ("order", "limit", "offset", "expected"),
    [
        ((), 2, 0, [(None, 9), (1, None)]),
        ((Order(Column("s.k")),), 3, 0, [(1, None), (1, 3), (1, 5)]),
        ((Order(Column("s.k")),), 9, 4, [(3, 0), (None, 9)]),
        ((Order(Column("s.k"), nulls_first=True),), 2, 0, [(None, 9), (1, None)]),
        ((Order(Column("s.k"), descending=True),), 3, 0, [(3, 0), (2, 1), (1, None)]),
        ((Order(Column("s.k"), descending=True),), 1, 5, [(None, 9)]),
        ((Order(Column("s.k"), descending=True, nulls_first=True),), 2, 0, [(None, 9), (3, 0)]),
        ((Order(Column("s.k")), Order(Column("s.v"), descending=True)), 3, 0,
         [(1, 5), (1, 3), (1, None)]),
        ((Order(Column("s.k")),), 0, 0, []),
        ((Order(Column("s.k")),), 3, 9, []),
    ],
)  # fmt: skip
def test_the_first_rows_of_an_order(
    order: tuple[Order, ...], limit: int, offset: int, expected: list[tuple[Any, Any]]
) -> None:
    top = Top(S, order, limit, offset)
    rows = Definition(DECLARED, {"s": MIXED}).relation(top, 0)
    assert [tuple(row.values()) for row in rows] == expected


def test_a_union_of_integers_and_doubles_is_of_doubles() -> None:
    big = 2**53 + 1
    plan = Combined("except", Project(S, (Output("n", Literal(big)),)),
                    Project(S, (Output("n", Literal(float(2**53))),)))  # fmt: skip
    assert Definition(DECLARED, {"s": MIXED}).relation(plan, 0) == []
