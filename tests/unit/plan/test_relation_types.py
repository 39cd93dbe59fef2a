"""Which columns plans of relations have, and what is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given

from millrace.errors import MillraceError
from millrace.plan.expressions import Arithmetic, Column, Compare, Expression, Literal
from millrace.plan.nodes import Output
from millrace.plan.relation_types import Declared, relation_schema
from millrace.plan.relations import (
    Aggregate,
    AggregateKind,
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
from millrace.testing import relation_strategies

DECLARED = Declared(
    {"s": Schema.of("k int, v double, name text, ok boolean, price decimal(5,2)")},
    {"r": Schema.of("k bigint, name text")},
)
S = Windowed(Source("s"), Window("range"), "s")
R = Table("r", "r")
K, V, NAME = Column("s.k"), Column("s.v"), Column("s.name")


def types(node: Relation) -> dict[str, pa.DataType]:
    return {each.name: each.type for each in relation_schema(node, DECLARED)}


def only(node: Relation, value: Expression) -> Relation:
    return Project(node, (Output("one", value),))


@given(relation_strategies.plans())
def test_every_plan_that_is_drawn_has_columns(plan: Relation) -> None:
    assert len(relation_schema(plan, relation_strategies.DECLARED)) > 0


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [
        (Aggregate("n", "var_pop", K), pa.float64()),
        (Aggregate("n", "stddev_samp", Column("s.price")), pa.float64()),
        (Aggregate("n", "percentile_cont", K, fraction=0.5), pa.float64()),
        (Aggregate("n", "percentile_disc", NAME, fraction=0.5), pa.string()),
        (Aggregate("n", "first", NAME, by=K), pa.string()),
        (Aggregate("n", "last", Column("s.price"), by=NAME), pa.decimal128(5, 2)),
        (Aggregate("n", "array_agg", Column("s.ok")), pa.list_(pa.bool_())),
        (Aggregate("n", "count"), pa.int64()),
    ],
)
def test_what_an_aggregate_is_of(aggregate: Aggregate, expected: pa.DataType) -> None:
    assert types(Group(S, (), (aggregate,))) == {"n": expected}


def test_a_list_is_passed_on_and_nothing_else() -> None:
    listed = Group(S, (), (Aggregate("all", "array_agg", K),))

    assert types(only(listed, Column("all"))) == {"one": pa.list_(pa.int32())}
    both = Combined("union", listed, only(listed, Column("all")))
    assert types(both) == {"all": pa.list_(pa.int32())}
    with pytest.raises(MillraceError, match="is a set"):
        types(Filter(listed, Compare("=", Column("all"), Column("all"))))
    with pytest.raises(MillraceError, match="a list of int on the left of UNION and int on the r"):
        types(Combined("union", listed, only(S, K)))


def test_an_answer_is_a_column_behind_the_others() -> None:
    kinds = {
        "exists": Asked(S, "answer", "exists", R),
        "in": Asked(S, "answer", "in", only(R, Column("r.k")), (V,)),
        "scalar": Asked(S, "answer", "scalar", only(R, Column("r.name"))),
    }

    found = {kind: list(types(asked).items())[-1] for kind, asked in kinds.items()}
    assert found == {
        "exists": ("answer", pa.bool_()),
        "in": ("answer", pa.bool_()),
        "scalar": ("answer", pa.string()),
    }


def test_a_subquery_sees_the_columns_around_it_and_nearer_ones_first() -> None:
    again = Table("r", "s")  # its columns hide those of the stream
    hidden = Asked(S, "answer", "scalar", only(again, Column("s.k")))
    deep = Asked(R, "deep", "scalar", only(R, Arithmetic("+", V, Column("r.k"))))
    nested = Asked(S, "answer", "scalar", only(deep, Column("deep")))

    assert types(hidden)["answer"] == pa.int64()
    assert types(nested)["answer"] == pa.float64()


def test_nothing_around_a_subquery_is_seen_outside_of_it_or_in_a_stream() -> None:
    about_s = Filter(R, Compare("=", Column("r.k"), K))
    told = Windowed(StreamOf("istream", about_s), Window("range"), "d")

    for plan in (about_s, Asked(S, "answer", "exists", told)):
        with pytest.raises(MillraceError, match=r'column "s\.k" does not exist'):
            types(plan)


TWO = Project(R, (Output("a", Column("r.k")), Output("b", Column("r.name"))))


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (Asked(S, "x", "in", TWO, (K,)), "2 columns where one value is needed"),
        (Asked(S, "x", "in", only(R, Column("r.k")), (K, V)), "1 columns where 2 are compared"),
        (Asked(S, "x", "in", TWO, (K, V)), 'double with column "b" of the subquery'),
        (Asked(S, "x", "scalar", TWO), "2 columns where one value is needed"),
        (Asked(S, "x", "exists", TWO, (K,)), "exists compares nothing"),
        (Asked(S, "s.k", "exists", TWO), 'column "s.k" is declared twice'),
        (Top(S, (), -1), "LIMIT is -1"),
        (Top(S, (), 1, -2), "OFFSET is -2"),
        (Top(S, (Order(Column("zz")),), 1), 'column "zz" does not exist'),
        (Windowed(StreamOf("rstream", S, 0), Window("range"), "d"), "told every 0"),
    ],
)
def test_a_node_that_does_not_fit_is_refused(plan: Relation, message: str) -> None:
    with pytest.raises(MillraceError, match=message):
        types(plan)


@pytest.mark.parametrize(
    ("window", "message"),
    [
        (Window("range", since=5, until=4), "ends before it begins"),
        (Window("range", 2, lag=3), "shows nothing"),
        (Window("range", -1), "size of the window is -1"),
        (Window("range", lag=-1), "lag of the window is -1"),
        (Window("range", 2, slide=0), "slide of the window is 0"),
        (Window("range", 2, by=("k",)), "a range is partitioned"),
        (Window("rows", 0), "of 0 rows"),
        (Window("rows", 2, since=1), "a window of rows is fixed in time"),
        (Window("rows", 2, lag=1), "a window of rows is fixed in time"),
        (Window("rows", 2, by=("zz",)), 'column "zz" does not exist'),
    ],
)
def test_a_window_without_a_meaning_is_refused(window: Window, message: str) -> None:
    with pytest.raises(MillraceError, match=message):
        types(Windowed(Source("s"), window, "w"))


@pytest.mark.parametrize(
    ("aggregate", "message"),
    [
        (Aggregate("n", "var_pop", NAME), "var_pop of text"),
        (Aggregate("n", "percentile_cont", Column("s.ok"), fraction=0.5), "of boolean"),
        (Aggregate("n", "percentile_cont", K), "at no fraction"),
        (Aggregate("n", "percentile_disc", K, fraction=1.5), "at the fraction 1.5"),
        (Aggregate("n", "sum", K, fraction=0.5), "sum is at a fraction"),
        (Aggregate("n", "first", K), "first is of no order"),
        (Aggregate("n", "max", K, by=K), "max has an order"),
        (Aggregate("n", "last", K, by=Literal(True), where=K), "is int where a condition"),
        (Aggregate("n", "array_agg"), "array_agg has no operand"),
        (Aggregate("n", "count", distinct=True), "count has no operand"),
    ],
)
def test_an_aggregate_that_does_not_fit_is_refused(aggregate: Aggregate, message: str) -> None:
    with pytest.raises(MillraceError, match=message):
        types(Group(S, (), (aggregate,)))


def test_every_number_is_summed_as_what_holds_the_sum() -> None:
    kinds: tuple[AggregateKind, ...] = ("sum", "avg")
    aggregates = [
        Aggregate(f"{kind}{at}", kind, operand)
        for kind in kinds
        for at, operand in enumerate((K, V, Column("s.price")))
    ]
    assert list(types(Group(S, (), tuple(aggregates))).values()) == [
        pa.int64(), pa.float64(), pa.decimal128(38, 2), pa.float64(), pa.float64(), pa.float64()
    ]  # fmt: skip
