"""Evaluation against its meaning for one row, in plain Python."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import assume, given
from hypothesis import strategies as st

from millrace.errors import PlanError
from millrace.operators.evaluate import evaluate
from millrace.operators.functions import FUNCTIONS
from millrace.operators.vectors import as_array
from millrace.plan.bind import bind_expression
from millrace.plan.expressions import (
    Both,
    Compare,
    Comparison,
    Either,
    Expression,
    Not,
)
from millrace.plan.signatures import SIGNATURES
from millrace.plan.types import kind_of
from millrace.schema import Schema
from millrace.testing.expression_strategies import expressions
from millrace.testing.oracle import functions as oracle
from millrace.testing.oracle.expressions import World, value_of
from millrace.testing.strategies import WIDE, batch_of, rows

Row = dict[str, Any]


def bound(node: Expression, schema: Schema = WIDE) -> tuple[Expression, pa.DataType]:
    """Bind what was drawn; a few products have more digits than a decimal may have."""
    try:
        return bind_expression(node, schema, {})
    except PlanError as refused:
        assume("digits" not in str(refused))
        raise


def strict(value: object) -> object:
    """Tell apart what Python's == does not: 1 and 1.0, 0.0 and -0.0; not NaN and NaN."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else (math.copysign(1, value), value)
    if isinstance(value, Decimal):
        return ("decimal", value)
    return (type(value) is bool, value)


def check(node: Expression, given_rows: list[Row]) -> None:
    node, arrow = bound(node)
    found = evaluate(node, batch_of(given_rows, WIDE), {})
    assert found.type == arrow
    expected = [value_of(node, row, World(WIDE)) for row in given_rows]
    values = as_array(found, len(given_rows)).to_pylist()
    assert [strict(each) for each in values] == [strict(each) for each in expected]


@given(rows(WIDE), expressions(WIDE))
def test_an_expression_means_the_same_for_a_batch_as_for_each_row(
    given_rows: list[Row], node: Expression
) -> None:
    check(node, given_rows)


@given(rows(WIDE), expressions(WIDE), st.integers(0, 6))
def test_where_batches_are_cut_does_not_matter(
    given_rows: list[Row], node: Expression, at: int
) -> None:
    node, _ = bound(node)
    whole = batch_of(given_rows, WIDE)

    def values(batch: pa.RecordBatch) -> list[object]:
        found = as_array(evaluate(node, batch, {}), batch.num_rows)
        return [strict(each) for each in found.to_pylist()]

    assert values(whole[:at]) + values(whole[at:]) == values(whole)


CONDITIONS = expressions(WIDE, "boolean", depth=3)


def truth(node: Expression, given_rows: list[Row]) -> list[object]:
    node, _ = bound(node)
    found = as_array(evaluate(node, batch_of(given_rows, WIDE), {}), len(given_rows))
    return list(found.to_pylist())


@given(rows(WIDE), CONDITIONS, CONDITIONS)
def test_laws_of_three_valued_logic(
    given_rows: list[Row], one: Expression, two: Expression
) -> None:
    same: list[tuple[Expression, Expression]] = [
        (Not(Not(one)), Both(one, one)),
        (Not(Both(one, two)), Either(Not(one), Not(two))),
        (Not(Either(one, two)), Both(Not(one), Not(two))),
        (Both(one, two), Both(two, one)),
        (Either(one, Both(one, two)), Either(one, one)),
    ]
    for left, right in same:
        assert truth(left, given_rows) == truth(right, given_rows)


@given(rows(WIDE), st.data())
def test_a_comparison_and_its_opposite_never_agree(given_rows: list[Row], data: Any) -> None:
    left, right = (data.draw(expressions(WIDE, "floating", depth=2)) for _ in range(2))
    pairs: tuple[tuple[Comparison, Comparison], ...] = (("=", "<>"), ("<", ">="), (">", "<="))
    for one, other in pairs:
        opposite = [
            None if each is None else not each
            for each in truth(Compare(other, left, right), given_rows)
        ]
        assert truth(Compare(one, left, right), given_rows) == opposite


def test_every_function_has_a_signature_a_meaning_and_a_kernel() -> None:
    assert set(FUNCTIONS) == set(SIGNATURES) == set(oracle.FUNCTIONS)


def test_kinds_of_all_types_are_known() -> None:
    assert len({kind_of(each.type) for each in WIDE}) == 8
