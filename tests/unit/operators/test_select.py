"""Selection: which rows a condition keeps, and what is computed for them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.errors import PlanError
from millrace.operators.select import matching, project
from millrace.plan.bind import bind_selection, output_schema
from millrace.plan.expressions import Expression
from millrace.plan.nodes import select
from millrace.plan.term import Term, call, col
from millrace.schema import Schema
from millrace.testing.expression_strategies import expressions
from millrace.testing.oracle.expressions import World, value_of
from millrace.testing.strategies import batch_of, rows

SCHEMA = Schema.of("x double, n bigint, s text, b boolean, m decimal(5,2), t timestamp")
CONDITIONS = expressions(SCHEMA, "boolean", depth=3)
Row = dict[str, Any]


@given(rows(SCHEMA), CONDITIONS)
def test_a_condition_keeps_the_rows_for_which_it_is_true(
    given_rows: list[Row], condition: Expression
) -> None:
    bound = bind_selection(select("s", where=Term(condition)), SCHEMA, {})
    assert bound.condition is not None

    kept = matching(bound, batch_of(given_rows, SCHEMA), {}).to_pylist()

    truth = [value_of(bound.condition, row, World(SCHEMA)) for row in given_rows]
    assert kept == [at for at, each in enumerate(truth) if each is True]


@given(rows(SCHEMA), CONDITIONS)
def test_a_computed_column_holds_what_the_expression_means(
    given_rows: list[Row], condition: Expression
) -> None:
    computed = Term(condition) & True
    bound = bind_selection(select("s", c=computed), SCHEMA, {})

    answer = project(bound, batch_of(given_rows, SCHEMA), output_schema(bound, SCHEMA, {}), {})

    value = bound.outputs[0].value
    expected = [value_of(value, row, World(SCHEMA)) for row in given_rows]
    assert answer.column("c").to_pylist() == expected


@given(rows(SCHEMA), CONDITIONS, st.integers(0, 6))
def test_batch_cuts_do_not_matter(given_rows: list[Row], condition: Expression, at: int) -> None:
    bound = bind_selection(select("s", where=Term(condition)), SCHEMA, {})
    whole = batch_of(given_rows, SCHEMA)

    parts = [matching(bound, each, {}).to_pylist() for each in (whole[:at], whole[at:])]

    offset = min(at, len(given_rows))
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
        bound,
        batch_of([{"n": 3}, {"n": 4}], SCHEMA),
        output_schema(bound, SCHEMA, types),
        {"twice": twice},
    )

    assert answer.column("t").to_pylist() == [6.0, 8.0]


@pytest.mark.parametrize(
    ("result", "words"), [(pa.array([1.0]), "returned 1 rows"), ([1.0, 2.0], "returned list")]
)
def test_a_function_that_returns_something_else_is_named(result: object, words: str) -> None:
    types = {"f": pa.bool_()}
    bound = bind_selection(select("s", where=call("f", col("n"))), SCHEMA, types)

    with pytest.raises(PlanError, match=f'function "f" {words} where an array of 2 rows'):
        matching(bound, batch_of([{"n": 3}, {"n": 4}], SCHEMA), {"f": lambda _: result})
