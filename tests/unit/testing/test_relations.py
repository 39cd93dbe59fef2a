"""The definition of CQL: its edges one by one, and DuckDB as a judge of every instant.

What a plan of relations means at an instant is plain SQL over what its windows show then. So the
windows are written to tables of DuckDB, the plan is printed as SQL, and the bags must be equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.plan.expressions import (
    Arithmetic,
    Both,
    Column,
    Compare,
    Expression,
    IsNull,
    Literal,
    Not,
)
from millrace.plan.nodes import Output
from millrace.plan.relation_types import Declared, relation_schema
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
    Source,
    StreamOf,
    Table,
    Window,
    Windowed,
)
from millrace.plan.spelling import to_text
from millrace.schema import Schema
from millrace.testing.oracle.aggregates import same
from millrace.testing.oracle.relations import Change, Definition, Element

DECLARED = Declared(
    {"s": Schema.of("k int, v int"), "t": Schema.of("k int, v int")},
    {"r": Schema.of("k int, v int")},
)
LAST = 9
KINDS: tuple[AggregateKind, ...] = ("count", "sum", "min", "max", "avg")


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


# ---- DuckDB --------------------------------------------------------------------------------------


class Plans:
    """Draws a plan; every relation that it is made of has the columns it says."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self._n_names = 0

    def one(self, options: Any) -> Any:
        return self._draw(st.sampled_from(list(options)))

    def name(self, prefix: str) -> str:
        self._n_names += 1
        return f"{prefix}{self._n_names}"

    def relation(self, depth: int) -> Relation:
        if depth == 0:
            return self.leaf()
        match self.one(["filter", "project", "join", "group", "distinct", "combined"]):
            case "filter":
                given = self.relation(depth - 1)
                return Filter(given, self.condition(names(given)))
            case "project":
                given = self.relation(depth - 1)
                return self.two_columns(given)
            case "join":
                left, right = self.relation(depth - 1), self.relation(depth - 1)
                condition = self.on(names(left), names(right))
                return Join(self.one(["inner", "left", "right", "full"]), left, right, condition)
            case "group":
                return self.group(self.relation(depth - 1))
            case "distinct":
                return Distinct(self.two_columns(self.relation(depth - 1)))
            case _:
                return Combined(
                    self.one(["union", "except", "intersect"]),
                    self.two_columns(self.relation(depth - 1)),
                    self.two_columns(self.relation(depth - 1)),
                    self.one([True, False]),
                )

    def leaf(self) -> Relation:
        alias = self.name("a")
        if self.one([True, True, False]):
            window = self.one(
                [
                    Window("range", 0), Window("range", 2), Window("range"), Window("rows", 2),
                    Window("rows", 2, 2), Window("rows", 1, by=("k",)), Window("range", 3, 2),
                ]
            )  # fmt: skip
            return Windowed(Source(self.one("st")), window, alias)
        return Table("r", alias)

    def two_columns(self, given: Relation) -> Relation:
        known = names(given)
        return Project(
            given,
            (Output(self.name("c"), Column(self.one(known))),
             Output(self.name("c"), self.number(known))),
        )  # fmt: skip

    def number(self, known: list[str]) -> Expression:
        column = Column(self.one(known))
        if self.one([True, False]):
            return column
        return Arithmetic(self.one("+-"), column, Literal(self.one([0, 1, 2])))

    def condition(self, known: list[str]) -> Expression:
        column = Column(self.one(known))
        match self.one(["compare", "null", "not", "both"]):
            case "compare":
                return Compare(self.one(["=", "<>", "<", ">="]), column, self.number(known))
            case "null":
                return IsNull(column)
            case "not":
                return Not(self.condition(known))
            case _:
                return Both(self.condition(known), self.condition(known))

    def on(self, left: list[str], right: list[str]) -> Expression:
        operator = self.one(["=", "=", "<"])
        return Compare(operator, Column(self.one(left)), Column(self.one(right)))

    def group(self, given: Relation) -> Relation:
        known = names(given)
        keys = tuple(
            Output(self.name("g"), Column(self.one(known))) for _ in range(self.one([0, 1, 2]))
        )
        aggregates = tuple(
            Aggregate(
                self.name("n"),
                kind,
                None if kind == "count" and self.one([True, False]) else Column(self.one(known)),
                distinct=self.one([True, False]),
                where=self.one([None, self.condition(known)]),
            )
            for kind in self._draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=2))
        )
        return Group(given, keys, _counting(aggregates))


def _counting(aggregates: tuple[Aggregate, ...]) -> tuple[Aggregate, ...]:
    """Leave DISTINCT off where there is nothing to tell apart."""
    return tuple(
        Aggregate(each.name, each.kind, each.operand, each.distinct and each.operand is not None,
                  each.where)
        for each in aggregates
    )  # fmt: skip


def names(relation: Relation) -> list[str]:
    return list(relation_schema(relation, DECLARED).names)


@st.composite
def plans(draw: st.DrawFn) -> Relation:
    return Plans(draw).relation(draw(st.integers(0, 3)))


SMALL = st.none() | st.integers(0, 3)
ELEMENTS = st.lists(st.tuples(st.integers(0, LAST), SMALL, SMALL), max_size=8).map(
    lambda some: given_stream(*sorted(some, key=lambda each: each[0]))
)


@st.composite
def changes(draw: st.DrawFn) -> list[Change]:
    """Draw inserts into a table, and deletes of what is there."""
    found: list[Change] = []
    for at, k, v in draw(st.lists(st.tuples(st.integers(0, 5), SMALL, SMALL), max_size=5)):
        found.append((at, {"k": k, "v": v}, 1))
        if draw(st.booleans()):
            found.append((at + draw(st.integers(1, 4)), {"k": k, "v": v}, -1))
    return found


def leaves(node: Relation) -> Iterator[Windowed | Table]:
    match node:
        case Windowed() | Table():
            yield node
        case Join() | Combined():
            yield from leaves(node.left)
            yield from leaves(node.right)
        case Filter() | Project() | Group() | Distinct():
            yield from leaves(node.input)


def sql(node: Relation) -> str:
    """Print a plan as DuckDB's SQL over tables that are called like the aliases of its leaves."""
    match node:
        case Windowed(_, _, alias) | Table(_, alias):
            return f'SELECT * FROM "{alias}"'
        case Filter(given, condition):
            return f"SELECT * FROM ({sql(given)}) WHERE {to_text(condition)}"
        case Project(given, outputs):
            return f"SELECT {_items(outputs)} FROM ({sql(given)})"
        case Join(kind, left, right, condition):
            on = "true" if condition is None else to_text(condition)
            return f"SELECT * FROM ({sql(left)}) {kind.upper()} JOIN ({sql(right)}) ON {on}"
        case Group(given, keys, aggregates):
            items = [_items(keys)] if keys else []
            items += [f'{_call(each)} AS "{each.name}"' for each in aggregates]
            by = f" GROUP BY {', '.join(to_text(each.value) for each in keys)}" if keys else ""
            return f"SELECT {', '.join(items)} FROM ({sql(given)}){by}"
        case Distinct(given):
            return f"SELECT DISTINCT * FROM ({sql(given)})"
        case Combined(kind, left, right, keep_all):
            return f"({sql(left)}) {kind.upper()} {'ALL' if keep_all else ''} ({sql(right)})"


def _items(outputs: tuple[Output, ...]) -> str:
    return ", ".join(f'{to_text(each.value)} AS "{each.name}"' for each in outputs)


def _call(each: Aggregate) -> str:
    operand = "*" if each.operand is None else to_text(each.operand)
    where = "" if each.where is None else f" FILTER (WHERE {to_text(each.where)})"
    return f"{each.kind}({'DISTINCT ' if each.distinct else ''}{operand}){where}"


@given(plans(), ELEMENTS, ELEMENTS, changes(), st.integers(0, LAST))
def test_duckdb_agrees_at_every_instant(
    plan: Relation, s: list[Element], t: list[Element], r: list[Change], at: int
) -> None:
    definition = Definition(DECLARED, {"s": s, "t": t}, {"r": r})
    with duckdb.connect() as database:
        for leaf in leaves(plan):
            database.execute(
                f'CREATE TABLE "{leaf.alias}" ("{leaf.alias}.k" INT, "{leaf.alias}.v" INT)'
            )
            for row in definition.relation(leaf, at):
                database.execute(f'INSERT INTO "{leaf.alias}" VALUES (?, ?)', list(row.values()))
        judged = database.execute(sql(plan)).fetchall()

    found = [tuple(row.values()) for row in definition.relation(plan, at)]
    assert counted(found) == counted(judged)


def counted(rows: list[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    rounded = [
        [round(each, 9) if isinstance(each, float) else each for each in row] for row in rows
    ]
    return Counter(tuple(map(same, row)) for row in rounded)
