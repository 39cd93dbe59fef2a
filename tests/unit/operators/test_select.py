"""Selection against three-valued logic in plain Python."""

from __future__ import annotations

import operator as operators
from collections.abc import Callable
from typing import Any, assert_never

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.errors import PlanError
from millrace.operators.select import matching, project
from millrace.plan.bind import bind_selection, output_schema
from millrace.plan.expressions import (
    COMPARISONS,
    Both,
    Call,
    Column,
    Compare,
    Either,
    Expression,
    IsNull,
    Literal,
    Not,
    Scalar,
    Term,
    call,
    col,
)
from millrace.plan.nodes import select
from millrace.schema import Schema

_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operators.lt,
    "<=": operators.le,
    ">": operators.gt,
    ">=": operators.ge,
}
SCHEMA = Schema.of("x double, n bigint, s text, b boolean")
Row = dict[str, Scalar]

ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "x": st.sampled_from([None, -0.0, 0.0, 1.5, float("nan"), float("inf")]),
            "n": st.sampled_from([None, 0, 1, -(2**63), 2**63 - 1, 2**53 + 1]),
            "s": st.sampled_from([None, "", "a", "é"]),
            "b": st.sampled_from([None, True, False]),
        }
    ),
    max_size=8,
)
NUMBERS = st.one_of(
    st.sampled_from([Column("x"), Column("n")]),
    st.sampled_from([None, 0, 1, 2**53 + 1, 1.5, float("nan")]).map(Literal),
)
TEXTS = st.one_of(st.just(Column("s")), st.sampled_from([None, "", "a"]).map(Literal))
COMPARED = st.one_of(
    st.builds(Compare, st.sampled_from(COMPARISONS), NUMBERS, NUMBERS),
    st.builds(Compare, st.sampled_from(COMPARISONS), TEXTS, TEXTS),
    st.just(Column("b")),
    st.sampled_from([None, True, False]).map(Literal),
)
CONDITIONS: st.SearchStrategy[Expression] = st.recursive(
    COMPARED,
    lambda parts: st.one_of(
        st.builds(Both, parts, parts),
        st.builds(Either, parts, parts),
        st.builds(Not, parts),
        st.builds(IsNull, parts),
    ),
    max_leaves=6,
)


def value_of(node: Expression, row: Row) -> Scalar:
    """What an expression means for one row; None is NULL and unknown."""
    match node:
        case Column(name):
            return row[name]
        case Literal(value):
            return value
        case Compare(operator, left, right):
            return compared(operator, value_of(left, row), value_of(right, row))
        case Both(left, right):
            sides = {value_of(left, row), value_of(right, row)}
            return False if False in sides else None if None in sides else True
        case Either(left, right):
            sides = {value_of(left, row), value_of(right, row)}
            return True if True in sides else None if None in sides else False
        case Not(operand):
            value = value_of(operand, row)
            return None if value is None else not value
        case IsNull(operand):
            return value_of(operand, row) is None
        case Call():
            pytest.fail("no function is drawn here")
        case _:
            assert_never(node)


def compared(operator: str, left: Scalar, right: Scalar) -> bool | None:
    if left is None or right is None:
        return None
    if isinstance(left, float) or isinstance(right, float):  # numbers beside a double are doubles
        left, right = float(left), float(right)
    if operator in ("=", "<>"):
        return (left == right) == (operator == "=")
    return _ORDERS[operator](left, right)


def batch(rows: list[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA.to_arrow())


@given(ROWS, CONDITIONS)
def test_a_condition_keeps_the_rows_for_which_it_is_true(
    rows: list[Row], condition: Expression
) -> None:
    bound = bind_selection(select("s", where=Term(condition)), SCHEMA, {})

    kept = matching(bound, batch(rows), {}).to_pylist()

    assert kept == [at for at, row in enumerate(rows) if value_of(condition, row) is True]


@given(ROWS, CONDITIONS)
def test_a_computed_column_holds_what_the_expression_means(
    rows: list[Row], condition: Expression
) -> None:
    if isinstance(condition, Literal) and condition.value is None:
        return  # has no type, and is refused
    bound = bind_selection(select("s", c=condition), SCHEMA, {})

    answer = project(bound, batch(rows), output_schema(bound, SCHEMA, {}), {})

    assert answer.column("c").to_pylist() == [value_of(condition, row) for row in rows]


@given(ROWS, CONDITIONS, st.integers(0, 8))
def test_batch_cuts_do_not_matter(rows: list[Row], condition: Expression, at: int) -> None:
    bound = bind_selection(select("s", where=Term(condition)), SCHEMA, {})
    whole = batch(rows)

    parts = [matching(bound, each, {}).to_pylist() for each in (whole[:at], whole[at:])]

    offset = min(at, len(rows))
    assert matching(bound, whole, {}).to_pylist() == [
        *parts[0],
        *(offset + row for row in parts[1]),
    ]


def test_a_function_gets_arrays_and_its_result_is_cast_to_what_it_declared() -> None:
    types = {"twice": pa.float64()}
    bound = bind_selection(select("s", t=call("twice", col("n"), 1)), SCHEMA, types)

    def twice(numbers: pa.Array, ones: pa.Array) -> pa.ChunkedArray:
        pairs = zip(numbers.to_pylist(), ones.to_pylist(), strict=True)
        return pa.chunked_array([[(1 + one) * number for number, one in pairs]])

    answer = project(
        bound, batch([{"n": 3}, {"n": 4}]), output_schema(bound, SCHEMA, types), {"twice": twice}
    )

    assert answer.column("t").to_pylist() == [6.0, 8.0]


@pytest.mark.parametrize(
    ("result", "words"), [(pa.array([1.0]), "returned 1 rows"), ([1.0, 2.0], "returned list")]
)
def test_a_function_that_returns_something_else_is_named(result: object, words: str) -> None:
    types = {"f": pa.bool_()}
    bound = bind_selection(select("s", where=call("f", col("n"))), SCHEMA, types)

    with pytest.raises(PlanError, match=f'function "f" {words} where an array of 2 rows'):
        matching(bound, batch([{"n": 3}, {"n": 4}]), {"f": lambda _: result})
